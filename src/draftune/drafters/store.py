"""Drafters on disk: config.json says what to build, model.safetensors holds what was trained and the vocabulary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from draftune import config as configs
from draftune import errors, storage
from draftune.drafters.base import Config, Drafter
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.target.base import TargetParts, TargetShape

VOCABULARY_IDS = "vocabulary_ids"
KEYS = ("drafter", "config", "target", "extra")  # of config.json


@dataclass(frozen=True, kw_only=True)
class DrafterCard:
    """What is known of a stored drafter beside its weights."""

    name: str
    config: Config
    extra: Mapping[str, Any] = field(default_factory=dict)  # what the writer added, such as the target's fingerprint


def save(
    drafter: Drafter,
    name: str,
    config: Config,
    folder: Path,
    *,
    shape: TargetShape,
    vocabulary: Vocabulary,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Write a drafter into a folder that exists. Raises StorageError where it cannot be written whole."""
    settings = {
        "drafter": name,
        "config": configs.to_dict(config),
        "target": configs.to_dict(shape),
        "extra": dict(extra or {}),
    }
    tensors = {key: value.detach().cpu().contiguous() for key, value in drafter.state_dict().items()}
    tensors[VOCABULARY_IDS] = vocabulary.ids.cpu()
    with storage.reporting(f"saving the drafter to {folder}"):
        safetensors.torch.save_file(tensors, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n")


def load(folder: Path, parts: TargetParts) -> tuple[Drafter, DrafterCard]:
    """The drafter in a folder, built for the target that lends `parts`, in the precision it was trained in.

    Raises StorageError for a damaged folder, MismatchError where width or vocabulary are another target's.
    """
    doing = f"loading the drafter in {folder}"
    settings, tensors = _read(folder, doing)
    _check_shape(configs.make(TargetShape, settings["target"], doing=doing), parts.shape, doing)
    make = DRAFTERS.load(settings["drafter"])
    config = configs.make(type(make()), settings["config"], doing=doing)
    vocabulary = Vocabulary(tensors.pop(VOCABULARY_IDS), parts.shape.vocab_size)
    drafter = config.build(parts, vocabulary)
    try:
        drafter.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        met = str(error).split("\n", 1)[-1].strip()
        raise errors.MismatchError(doing=doing, met=met, todo="use the weights that belong to this config") from error
    return drafter.to(parts.head_VD.device).eval(), DrafterCard(
        name=settings["drafter"], config=config, extra=settings["extra"]
    )


def begin_from(folder: Path, drafter: Drafter, name: str, config: Config, parts: TargetParts, ids: Tensor) -> None:
    """Nothing; a fresh drafter over the tokens `ids` gets the weights of one that was stored, maybe for another target.

    `folder` is the stored drafter's own, or a bundle that holds one of this name. Of a weight with a row for each
    token of the vocabulary, the rows of tokens that both know are taken; the others stay fresh. Raises StorageError
    where there is none, MismatchError where its width or its parts are others.
    """
    place = next((one for one in _places(folder, name) if _is(one, name)), None)
    if place is None:
        raise errors.StorageError(
            doing=f"starting from {folder}", met=f"it holds no drafter {name!r}", todo="give a bundle that has one"
        )
    doing = f"starting {name!r} from {place}"
    settings, theirs = _read(place, doing)
    _check_shape(configs.make(TargetShape, settings["target"], doing=doing), parts.shape, doing)
    known, mine = Vocabulary(theirs.pop(VOCABULARY_IDS), parts.shape.vocab_size), drafter.state_dict()
    shared = ids[known.labels(ids) >= 0]
    to, source = Vocabulary(ids, parts.shape.vocab_size).labels(shared), known.labels(shared)
    smaller = config.build(parts, Vocabulary(ids[:-1], parts.shape.vocab_size)).state_dict() if len(ids) > 1 else {}
    for key, weight in mine.items():
        by_token = key in smaller and smaller[key].shape != weight.shape
        other = theirs.get(key)
        fits = other is not None and (other.shape[1:] == weight.shape[1:] if by_token else other.shape == weight.shape)
        if other is None or not fits or len(theirs) != len(mine):
            met, todo = f"its weight {key!r} is another or none", "give a drafter of the same parts and settings"
            raise errors.MismatchError(doing=doing, met=met, todo=todo)
        if by_token:
            weight[to] = other[source].to(weight)
        else:
            weight.copy_(other)


def _places(folder: Path, name: str) -> tuple[Path, ...]:
    return folder, folder / "drafter", folder / "drafters" / name


def _is(folder: Path, name: str) -> bool:
    """Whether a drafter of this name lies in the folder."""
    try:
        return json.loads((folder / "config.json").read_text())["drafter"] == name
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _read(folder: Path, doing: str) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    todo = "give a folder that draftune wrote"
    try:
        settings = json.loads((folder / "config.json").read_text())
        tensors = safetensors.torch.load_file(folder / "model.safetensors")
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        raise errors.StorageError(doing=doing, met=str(error), todo=todo) from error
    lacking = [name for name in KEYS if not isinstance(settings, dict) or name not in settings]
    lacking += [name for name in (VOCABULARY_IDS,) if name not in tensors]
    if lacking:
        raise errors.StorageError(doing=doing, met=f"it has no {lacking[0]!r}", todo=todo)
    return settings, tensors


def _check_shape(trained: TargetShape, given: TargetShape, doing: str) -> None:
    for name, what in (("hidden_size", "width"), ("vocab_size", "vocabulary")):
        if getattr(trained, name) != getattr(given, name):
            raise errors.MismatchError(
                doing=doing,
                met=f"trained for a target of {what} {getattr(trained, name)}, met one of {getattr(given, name)}",
                todo="load it with the target of its own bundle",
            )
