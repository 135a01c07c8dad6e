"""What a benchmark decodes and how; knows nothing of any model."""

from __future__ import annotations

from dataclasses import dataclass

from draftune import config as configs
from draftune import errors
from draftune.types import Rule, RunnerKind

_DOING = "reading the benchmark's settings"


@dataclass(frozen=True, kw_only=True)
class BenchConfig:
    """The settings of one benchmark. Every decoder gets the same prompts, limits and stop tokens."""

    num_prompts: int = 40  # the first rows of the held-out split
    num_drafts: int = 5  # K
    max_new_tokens: int = 256
    batch_size: int = 1  # prompts decoded together; times are taken per batch
    temperature: float = 0.0
    seed: int | None = 0  # keys the noise of the rule `match`; None leaves sampled text to chance
    rule: Rule = "auto"
    num_warmup: int = 1  # batches that every decoder answers before the clock counts
    base: bool = True  # also score the model with its adapter switched off
    adaptive: bool = False  # draft fewer than K where that is faster, by this machine's costs and what was accepted
    runner: RunnerKind = "auto"
    merge: bool = True  # time a copy of the model with its adapter folded into the weights, the fastest form
    num_answers: int = 3  # drafted answers kept for a report that shows text
    num_resamples: int = 2000  # of the bootstrap

    def __post_init__(self) -> None:
        least = {"num_prompts": 1, "num_drafts": 1, "max_new_tokens": 1, "batch_size": 1, "num_resamples": 100}
        configs.at_least(self, doing=_DOING, **least, num_warmup=0, num_answers=0, temperature=0)
        if self.rule == "rejection" and self.seed is not None and self.temperature > 0:
            raise errors.ConfigError(
                doing=_DOING,
                met="rule 'rejection' with a seed: a seeded text is made by 'match'",
                todo="set seed to none, or the rule to 'match'",
            )

    @property
    def same_text(self) -> bool:
        """True where drafted and plain decoding must give the same token ids: greedy, or noise keyed by a seed."""
        return self.temperature == 0 or self.seed is not None
