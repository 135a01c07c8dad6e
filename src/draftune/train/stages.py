"""The stages of a run: the adapter alone, adapter and drafter together, a drafter on the frozen target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from draftune import errors
from draftune.drafters.base import DraftBatch, Drafter
from draftune.drafters.vocabulary import Vocabulary
from draftune.target import lora
from draftune.target.base import FINAL
from draftune.target.target import Target
from draftune.train import features, heldout
from draftune.train.config import TrainConfig
from draftune.train.features import FeatureView
from draftune.train.guard import EXCESS, JOINT, PLAIN, Gate, scaled
from draftune.train.loop import Group, Losses, Run, Stage
from draftune.train.material import Material
from draftune.train.objective import CrossEntropy, Distillation, Teacher
from draftune.train.plan import Plan
from draftune.types import Example, Features

Judge = Callable[[Drafter], dict[str, float]]  # held-out tau and alpha_k of a drafter


def adapter(target: Target, material: Material, run: Run) -> Stage:
    """Plain LoRA on the language-model loss."""

    def loss(rows: Sequence[int], index: int, progress: float) -> Losses:
        target.model.train()
        examples = [material.adapter[row] for row in rows]
        tokens_BT, learned_BT, lengths_B = features.collate(examples, target.device)
        with run.accelerator.autocast():
            hidden_BTD = target.hidden(tokens_BT, lengths_B).hidden[:, :, 0]
            total, count = heldout.lm_loss(target, hidden_BTD, tokens_BT, learned_BT)
        return Losses(
            total=total / count, terms={"lm": (float(total.detach()), count)}, num_tokens=_num_tokens(examples)
        )

    return Stage(
        name=PLAIN,
        plan=_plan(material, run),
        groups=[Group(name="adapter", parameters=_trainable(target.model), lr=run.config.lr_adapter)],
        loss=loss,
        evaluate=lambda progress: likelihood(target, material, run, progress),
        weights=lambda: lora.adapter_state(target),
        load=lambda tensors: lora.load_adapter_state(target, dict(tensors)),
        evaluate_first=True,
    )


def joint(target: Target, drafter: Drafter, material: Material, run: Run) -> Stage:
    """Adapter and drafter in the same steps: L = (1 - lambda) L_LM + lambda sum_k w_k CE_k.

    What of the draft loss reaches the adapter is for the gate to say. The rows of a step are those of plain LoRA.
    """
    config, gate = run.config, Gate(run.config, run.history)

    def loss(rows: Sequence[int], index: int, progress: float) -> Losses:
        target.model.train()
        drafter.train()
        examples = [material.adapter[row] for row in rows]
        tokens_BT, learned_BT, lengths_B = features.collate(examples, target.device)
        with run.accelerator.autocast():
            heard = target.hidden(tokens_BT, lengths_B, tuple(sorted({FINAL, *drafter.taps})))
            total, count = heldout.lm_loss(target, heard.tap(FINAL), tokens_BT, learned_BT)
        scale = gate.scale(index, progress)
        lent = _lend(heard, drafter.taps, scale)
        batch = DraftBatch(tokens=tokens_BT, learned=learned_BT, lengths=lengths_B, features=lent)
        objective = CrossEntropy(config.num_drafts, config.decay)
        with run.accelerator.autocast():
            draft_loss = drafter.loss(batch, objective)
        return Losses(
            total=(1 - config.draft_weight) * total / count + config.draft_weight * draft_loss,
            terms={
                "lm": (float(total.detach()), count),
                "draft": (float(draft_loss.detach()), 1),
                "draft_gradient": (scale, 1),
            }
            | objective.metrics(),
            num_tokens=_num_tokens(examples),
        )

    def evaluate(progress: float) -> dict[str, float]:
        found = likelihood(target, material, run, progress)
        excess = gate.excess(progress, found["nll"]) if found and progress > 0 else None
        if excess is not None:
            found[EXCESS] = excess
        return found | own_answers(target, material, run, drafter)(drafter) if progress > 0 else found

    return Stage(
        name=JOINT,
        plan=_plan(material, run),
        groups=[
            Group(name="adapter", parameters=_trainable(target.model), lr=config.lr_adapter),
            Group(name="drafter", parameters=_trainable(drafter), lr=config.lr_drafter),
        ],
        loss=loss,
        evaluate=evaluate,
        weights=lambda: _prefixed("adapter.", lora.adapter_state(target)) | _prefixed("drafter.", drafter.state_dict()),
        load=lambda tensors: _load_joint(target, drafter, tensors),
        evaluate_first=True,
    )


def drafter(
    name: str, module: Drafter, view: FeatureView, plan: Plan, judge: Judge, material: Material, run: Run
) -> Stage:
    """One drafter on the features of the frozen target (lambda = 1)."""
    config = run.config

    def loss(rows: Sequence[int], index: int, progress: float) -> Losses:
        module.train()
        batch = view.batch(rows)
        with run.accelerator.autocast():
            objective = _objective(view.cache.target, material.vocabulary, batch, config)
            total = module.loss(batch, objective)
        return Losses(total=total, terms=objective.metrics(), num_tokens=int(batch.learned.sum()))

    return Stage(
        name=f"drafter:{name}",
        plan=plan,
        groups=[Group(name="drafter", parameters=_trainable(module), lr=config.lr_drafter)],
        loss=loss,
        evaluate=lambda progress: judge(module),
        weights=module.state_dict,
        load=lambda tensors: _load(module, tensors),
        minutes=config.drafter_minutes,
        borrowed_s=lambda: view.borrowed_s,
    )


def _objective(
    target: Target, vocabulary: Vocabulary, batch: DraftBatch, config: TrainConfig
) -> CrossEntropy | Distillation:
    if config.objective == "text":
        return CrossEntropy(config.num_drafts, config.decay)
    if FINAL not in batch.features.taps:
        met = f"objective = {config.objective} for a drafter that does not hear the final layer"
        raise errors.ConfigError(doing="training a drafter", met=met, todo="set objective=text")
    with torch.no_grad():
        teacher = Teacher(batch, lambda hidden_PD: target.logits(hidden_PD, vocabulary.columns_or_none))
    return Distillation(config.num_drafts, config.decay, teacher, hard=config.objective == "likeliest")


def likelihood(target: Target, material: Material, run: Run, progress: float) -> dict[str, float]:
    """Held-out nll per learned token: of all validation rows at both ends, of a few between unless they are guarded."""
    guarded = run.config.mode == "joint" and run.config.guard is not None
    rows = material.validation if guarded or progress in (0, 1) else material.validation[: run.config.eval_rows]
    if not rows:
        return {}
    total, count = heldout.nll(target, rows)
    return {"nll": total / count}


def own_answers(target: Target, material: Material, run: Run, *drafters: Drafter) -> Judge:
    """A judge of drafters on what the target itself answers now; the texts and features are made once."""
    answers = heldout.answer(target, material.requests) if material.requests else []
    whole = any(module.needs_prompt_features for module in drafters)
    heard = {taps: heldout.listen(target, answers, taps, whole=whole) for taps in {module.taps for module in drafters}}

    def judge(module: Drafter) -> dict[str, float]:
        batches = heard[module.taps]
        return heldout.figures(heldout.acceptance(module, batches, answers, run.config.num_drafts))

    return judge


def _plan(material: Material, run: Run) -> Plan:
    config = run.config
    lengths = [len(example.tokens) for example in material.adapter]
    return Plan(lengths, config.adapter_epochs, config.batch_size, config.max_batch_tokens, config.seed, PLAIN)


def _lend(heard: Features, taps: tuple[int, ...], scale: float) -> Features:
    hidden = heard.hidden[:, :, [heard.taps.index(tap) for tap in taps]]
    return Features(ids=heard.ids, hidden=scaled(hidden, scale), taps=taps)


def _trainable(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def _num_tokens(examples: Sequence[Example]) -> int:
    return sum(len(example.tokens) for example in examples)


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in tensors.items()}


def _without(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _load(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    module.load_state_dict(dict(tensors), strict=True)


def _load_joint(target: Target, module: Drafter, tensors: Mapping[str, Tensor]) -> None:
    lora.load_adapter_state(target, _without("adapter.", tensors))
    _load(module, _without("drafter.", tensors))
