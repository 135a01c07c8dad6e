"""Adapters on the target, all through peft: new ones to train, finished ones to attach, and folding them in."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from draftune import errors, storage
from draftune.target.target import Target


@dataclass(frozen=True, kw_only=True)
class LoraSettings:
    """A low-rank adapter: y + alpha / rank * B(A(dropout(x))) on every module named."""

    rank: int = 8
    alpha: float = 16
    dropout: float = 0.0
    modules: str = "all-linear"  # every linear layer but the head; or names, comma-separated: "q_proj,v_proj"

    def __post_init__(self) -> None:
        if self.rank < 1 or not 0 <= self.dropout < 1:
            raise errors.ConfigError(
                doing="choosing an adapter",
                met=f"rank {self.rank}, dropout {self.dropout}",
                todo="choose a rank of at least 1 and a dropout in 0..1",
            )


def is_adapter(path: Path | str) -> bool:
    """Whether the folder holds a peft adapter and no model of its own."""
    path = Path(path)
    return (path / "adapter_config.json").is_file() and not (path / "config.json").is_file()


def add(target: Target, settings: LoraSettings | None = None) -> Target:
    """The target with a fresh trainable adapter, which changes nothing yet. The given target's model is wrapped."""
    import peft

    settings = settings or LoraSettings()
    _refuse_second(target, doing="adding an adapter")
    names = [name.strip() for name in settings.modules.split(",")]
    config = peft.LoraConfig(
        task_type="CAUSAL_LM",
        r=settings.rank,
        lora_alpha=settings.alpha,  # type: ignore[arg-type]  # a float works as well
        lora_dropout=settings.dropout,
        target_modules="all-linear" if names == ["all-linear"] else names,
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of transformers, about names that peft uses
            model = peft.get_peft_model(target.model, config)
    except ValueError as error:
        raise errors.ConfigError(
            doing=f"adding an adapter to {settings.modules!r}",
            met=_first_line(error),
            todo="name modules that the model has, or 'all-linear'",
        ) from error
    written: Any = model.peft_config["default"]
    written.base_model_name_or_path = target.name
    # peft writes "all-linear" out as every module's full name; the last parts say the same and fit any depth.
    written.target_modules = sorted({name.rpartition(".")[2] for name in written.target_modules})
    return Target(model, target.tokenizer, target.name)


def attach(target: Target, folder: Path | str) -> Target:
    """The target with the adapter of `folder` active and frozen. The folder is only read; the model is wrapped."""
    import peft

    doing = f"attaching the adapter {str(folder)!r}"
    _refuse_second(target, doing=doing)
    try:
        config = peft.PeftConfig.from_pretrained(str(folder))
        _refuse_foreign_kind(config, doing)
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            model = peft.PeftModel.from_pretrained(target.model, str(folder), is_trainable=False)
    except errors.DraftuneError:
        raise
    except Exception as error:  # peft raises ValueError, RuntimeError, OSError, SafetensorError and more
        raise errors.TargetError(
            doing=doing, met=_first_line(error), todo=f"give an adapter that was trained on {target.name!r}"
        ) from error
    missing = any("missing adapter keys" in str(note.message) for note in notes)
    if missing or _num_unused(model, folder):
        met = "weights are missing in it" if missing else "it holds weights that the model has no place for"
        raise errors.TargetError(doing=doing, met=met, todo=f"give an adapter that was trained on {target.name!r}")
    return Target(model.eval(), target.tokenizer, target.name)


def save(target: Target, folder: Path | str) -> None:
    """Nothing; the active adapter is written to `folder` in peft's format, in one move."""
    _need_adapter(target, doing="saving an adapter")
    name = target.model.active_adapters[0]
    with storage.replacing(folder, doing=f"saving the adapter to {str(folder)!r}") as fresh:
        # Without `False` peft would ask the hub whether the base's vocabulary was changed.
        target.model.save_pretrained(str(fresh), selected_adapters=[name], save_embedding_layers=False)
        inner = fresh / name  # where peft puts an adapter that is not called "default"
        if inner.is_dir():
            for path in inner.iterdir():
                path.rename(fresh / path.name)
            inner.rmdir()


def merge(target: Target, *, keep: bool = True) -> Target:
    """The target with its adapter folded into the weights: the fastest form, with the same fingerprint.

    The given target stays as it is, so undoing a merge is going on with it. `keep=False` saves the memory of a
    second model: the weights are folded in place, and the given target must not be used any more.
    """
    if not has_adapter(target):
        return target
    known_as = target.fingerprint()
    model = copy.deepcopy(target.model) if keep else target.model
    before = {weight.data_ptr() for weight in model.parameters()}
    merged = model.merge_and_unload(safe_merge=True).eval()
    if not keep:  # what was not folded may still lie in the mapped file, which would stay in memory for its sake
        for weight in merged.parameters():
            if weight.data_ptr() in before:
                weight.data = weight.data.clone()
    return Target(merged.requires_grad_(False), target.tokenizer, target.name, known_as=known_as)


@contextmanager
def without(target: Target) -> Iterator[Target]:
    """The target with its adapter switched off for the length of a `with` block: the base model."""
    if not has_adapter(target):
        yield target
        return
    with target.model.disable_adapter():
        yield target


def has_adapter(target: Target) -> bool:
    """Whether a peft adapter is attached, not folded in."""
    return target.adapted


def adapter_state(target: Target) -> dict[str, Tensor]:
    """A copy of the adapter's weights on the CPU, for a checkpoint."""
    from peft import get_peft_model_state_dict

    _need_adapter(target, doing="reading the adapter's weights")
    name = target.model.active_adapters[0]
    state = get_peft_model_state_dict(target.model, adapter_name=name, save_embedding_layers=False)
    return {key: weight.detach().to("cpu", copy=True) for key, weight in state.items()}


def load_adapter_state(target: Target, state: Mapping[str, Tensor]) -> None:
    """Nothing; the adapter's weights become those of `state`. Raises MismatchError where they do not fit exactly."""
    from peft import set_peft_model_state_dict

    _need_adapter(target, doing="restoring the adapter's weights")
    mine = adapter_state(target)
    odd = sorted(mine.keys() ^ state.keys()) or [key for key in mine if mine[key].shape != state[key].shape]
    if odd:
        raise errors.MismatchError(
            doing="restoring the adapter's weights",
            met=f"{len(odd)} weights do not fit, such as {odd[0]!r}",
            todo="restore with the adapter settings they were saved with",
        )
    set_peft_model_state_dict(target.model, dict(state), adapter_name=target.model.active_adapters[0])


def _need_adapter(target: Target, *, doing: str) -> None:
    if not has_adapter(target):
        raise errors.TargetError(doing=doing, met=f"{target.name!r} has none", todo="add or attach one first")


def _refuse_second(target: Target, *, doing: str) -> None:
    if has_adapter(target):
        raise errors.TargetError(
            doing=doing, met=f"{target.name!r} already has one", todo="merge it first, or load the base model again"
        )


def _refuse_foreign_kind(config: Any, doing: str) -> None:
    """Prompt-learning adapters add positions that no cache here knows of; aLoRA switches on by what it reads."""
    if config.is_prompt_learning or getattr(config, "alora_invocation_tokens", None):
        raise errors.TargetError(
            doing=doing,
            met=f"it is of the kind {config.peft_type.value}, which does not live in the weights alone",
            todo="use an adapter such as LoRA, DoRA or IA3, or merge it into a model first",
        )


def _num_unused(model: Any, folder: Path | str) -> int:
    """Adapter weights in the folder that peft silently left out, as those of layers that the model lacks."""
    from peft import get_peft_model_state_dict, load_peft_weights

    used = get_peft_model_state_dict(model, adapter_name=model.active_adapters[0], save_embedding_layers=False)
    kept = [key for key in load_peft_weights(str(folder), device="cpu") if model.base_model.prefix in key]
    return len(kept) - sum(model.base_model.prefix in key for key in used)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
