"""How a target and its drafters are trained: every setting with its default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from draftune import config as configs
from draftune import errors
from draftune.target.lora import LoraSettings

Mode = Literal["after", "joint"]
Precision = Literal["auto", "fp32", "bf16"]
Objective = Literal["text", "distribution", "likeliest"]

# Settings that change where or how often something is written, never what is learned: a resumed run may change them.
FREE_SETTINGS = ("trackers", "checkpoint_steps", "checkpoint_s", "check_memory")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The settings of one run of `tune`.

    `mode` "after" tunes the target by plain LoRA and then trains each drafter on the frozen result; "joint" trains
    the adapter and one drafter in the same steps on (1 - draft_weight) L_LM + draft_weight sum_k w_k CE_k, guarded by
    a plain LoRA run over the same steps.
    """

    mode: Mode = "after"
    drafters: tuple[str, ...] = ("semiar-lstm",)
    drafter_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by drafter: dotted name -> value

    adapter: str | None = None  # folder of a finished peft adapter: attached, left untouched, not trained
    lora: LoraSettings = field(default_factory=LoraSettings)
    adapter_rows: int | None = 600  # None = all
    adapter_epochs: int = 2  # 0 = the target is already tuned
    start_from: str | None = None  # a bundle or drafter folder whose weights the drafters of the same name begin with
    drafter_rows: int | None = None
    drafter_epochs: int = 4
    drafter_minutes: float | None = None  # wall clock of each drafter's training, the target's features included
    drafter_after_joint: bool = False  # train the joint drafter on, with the adapter frozen, for drafter_epochs

    own_answers: int | None = 0  # training prompts that the tuned target answers itself, for its drafters; None = all
    answer_max_new_tokens: int = 256
    answer_batch_size: int = 16  # prompts answered together
    draft_prompts: bool = False  # drafters learn from the prompts' tokens too, whose features cost nothing more

    num_drafts: int = 5  # K
    decay: float = 0.8  # w_k is proportional to decay^(k-1)
    objective: Objective = "text"  # learn the rows' tokens, the target's distribution there, or its likeliest token
    draft_weight: float = 0.2  # lambda of `joint`
    draft_gradient: float = 1.0  # in `joint`, of the draft loss's gradient that reaches the adapter; 0 = none of it
    draft_gradient_share: float = 1.0  # of the steps in which it reaches the adapter at all
    joint_warmup: float = 0.1  # share of the steps in which the draft loss of `joint` trains the drafter alone
    guard: float | None = 0.01  # held-out nll may lie this share above plain LoRA's; beyond, the gradient is stopped
    vocabulary_size: int | Literal["full"] = 8192  # at most; the tokens seen in answers, most frequent first

    batch_size: int = 8  # rows a step where the target learns
    drafter_batch_size: int = 16  # rows a step where it is frozen
    max_batch_tokens: int = 8192  # rows x longest row, beyond which a batch is split
    lr_adapter: float = 5e-4
    lr_drafter: float = 1e-3
    warmup: float = 0.05  # share of the steps
    final_lr: float = 0.1  # share of the peak that the cosine ends at
    clip: float = 1.0  # gradient norm, of adapter and drafter apart
    weight_decay: float = 0.0
    max_length: int = 1024  # tokens of a row, prompt and answer together
    seed: int = 0
    precision: Precision = "auto"  # of products in training; auto = bf16 where the device computes it natively
    feature_cache_bytes: int = 2_000_000_000  # features of frozen targets kept in memory; the rest is computed again

    evaluations: int = 4  # per stage, the last at its end
    eval_rows: int = 16  # held-out prompts that the target answers and the drafter is scored on
    eval_max_new_tokens: int = 64
    nll_rows: int = 64  # held-out rows whose likelihood is measured

    checkpoint_steps: int | None = None  # None = by time alone
    checkpoint_s: float = 60.0
    trackers: str = ""  # names that accelerate knows, comma-separated, as "tensorboard"
    check_memory: bool = True  # refuse to start when the estimate exceeds the device

    def __post_init__(self) -> None:
        configs.at_least(self, doing=_DOING, **_LEAST)
        for name in ("lr_adapter", "lr_drafter", "clip", "decay", "drafter_minutes", "checkpoint_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                self._refuse(name, value, "give a number above 0")
        for name in ("draft_weight", "warmup", "final_lr", "decay", "draft_gradient_share", "joint_warmup"):
            if not 0 <= getattr(self, name) <= 1:
                self._refuse(name, getattr(self, name), "give a share between 0 and 1")
        self._check_mode()

    def _check_mode(self) -> None:
        if len(set(self.drafters)) != len(self.drafters):
            self._refuse("drafters", ", ".join(self.drafters), "name each drafter once")
        stray = next((name for name in self.drafter_settings if name not in self.drafters), None)
        if stray is not None:
            self._refuse("drafter_settings", stray, errors.nearest(stray, self.drafters))
        if self.mode == "joint" and len(self.drafters) != 1:
            self._refuse("drafters", ", ".join(self.drafters) or "none", "train exactly one drafter in mode 'joint'")
        if self.mode == "joint" and not 0 < self.draft_weight < 1:
            self._refuse("draft_weight", self.draft_weight, "weigh both losses of mode 'joint', or use mode 'after'")
        if self.mode == "joint" and (self.adapter is not None or self.adapter_epochs == 0):
            self._refuse("mode", "joint", "use mode 'after' for a target that is already tuned")

    def _refuse(self, name: str, value: object, todo: str) -> None:
        raise errors.ConfigError(doing=_DOING, met=f"{name} = {value}", todo=todo)


_DOING = "reading the training settings"
_LEAST: dict[str, float] = {
    "adapter_rows": 1,
    "adapter_epochs": 0,
    "drafter_rows": 1,
    "drafter_epochs": 0,
    "own_answers": 0,
    "answer_max_new_tokens": 1,
    "answer_batch_size": 1,
    "num_drafts": 1,
    "draft_gradient": 0,
    "guard": 0,
    "vocabulary_size": 1,
    "batch_size": 1,
    "drafter_batch_size": 1,
    "max_batch_tokens": 1,
    "weight_decay": 0,
    "max_length": 2,
    "seed": 0,
    "feature_cache_bytes": 0,
    "evaluations": 1,
    "eval_rows": 1,
    "eval_max_new_tokens": 2,
    "nll_rows": 1,
    "checkpoint_steps": 1,
}
