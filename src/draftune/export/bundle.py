"""The bundle: one folder of what belongs together, written whole and read only where it fits.

bundle.json     the card: base model, adapter, drafters, template, versions
adapter/        peft's own format; absent where the target was given already tuned
drafter/        the default drafter; further ones lie in drafters/NAME/
run.json        how it was made: arguments, seeds, data hash, git id
report/         what `draftune bench` writes
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from draftune import config as configs
from draftune import errors, storage
from draftune.drafters import store
from draftune.drafters.base import Config, Drafter
from draftune.drafters.vocabulary import Vocabulary
from draftune.target import device as devices
from draftune.target import image as images
from draftune.target import load, lora
from draftune.target.base import TargetShape
from draftune.target.image import Image
from draftune.target.target import Target

FORMAT = 1  # of bundle.json; raised when a field changes its meaning
CARD, RUN = "bundle.json", "run.json"
PACKAGES = ("draftune", "torch", "transformers", "peft", "safetensors")


@dataclass(frozen=True, kw_only=True)
class Card:
    """What bundle.json says: enough to find every part and to know that it is the right one."""

    base: str  # the base model as it was named
    base_place: str  # and where it was: the same, or its absolute path
    base_fingerprint: str
    tuned_fingerprint: str  # of base and adapter together: what the drafters were trained for
    adapter: bool  # False: the base was tuned already, and adapter/ is absent
    template: str  # hash of the chat template
    shape: TargetShape
    drafter: str  # the default
    drafters: tuple[str, ...]
    num_drafts: int  # K that they were trained for
    mode: str = "after"  # how they were trained: after the target, or jointly with it
    task: str  # the rows as they were named
    task_place: str  # and where they were
    fields: Mapping[str, str] = field(default_factory=dict)  # and which of their fields mean what
    task_fingerprint: str  # of the rows
    command: str  # that made it
    versions: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A drafter with what is needed to build it again."""

    drafter: Drafter
    config: Config
    vocabulary: Vocabulary


Read = TypeVar("Read", bound="Target | Image")


@dataclass(frozen=True, kw_only=True)
class Bundle(Generic[Read]):
    """A bundle read back: the tuned target, its drafters by name, and the card."""

    folder: Path
    card: Card
    target: Read
    drafters: Mapping[str, Drafter]


def write(
    folder: Path,
    target: Target,
    drafters: Mapping[str, Packed],
    *,
    num_drafts: int,
    mode: str = "after",
    base: str,
    base_fingerprint: str,
    task: str,
    task_fingerprint: str,
    fields: Mapping[str, str] | None = None,
    command: str,
    run: Mapping[str, Any] | None = None,
) -> Card:
    """The card of the bundle now in `folder`, which is replaced as a whole. The first drafter is the default.

    `base` is where the target was loaded from, `base_fingerprint` what it was before an adapter was added.
    Raises ConfigError where `folder` holds something else, StorageError where it cannot be written; the previous
    bundle is then still there.
    """
    check_free(folder)
    card = Card(
        base=base,
        base_place=_absolute(base),
        base_fingerprint=base_fingerprint,
        tuned_fingerprint=target.fingerprint(),
        adapter=target.fingerprint() != base_fingerprint,
        template=template_hash(target),
        shape=target.shape,
        drafter=next(iter(drafters)),
        drafters=tuple(drafters),
        num_drafts=num_drafts,
        mode=mode,
        task=task,
        task_place=_absolute(task),
        fields=fields or {},
        task_fingerprint=task_fingerprint,
        command=command,
        versions=_versions(),
    )
    doing = f"writing the bundle {folder}"
    try:
        with storage.replacing(folder, doing=doing) as partial:
            _fill(partial, card, target, drafters, run or {})
    except errors.StorageError as error:  # told of the bundle, not of a part of it
        raise errors.StorageError(doing=doing, met=error.met, todo=error.todo) from error
    return card


def _absolute(spec: str) -> str:
    """A path that holds from any folder; "sql:rows.jsonl" keeps its name; what is no path stays as it is."""
    name, colon, path = spec.partition(":")
    if Path(spec).expanduser().exists():
        return str(Path(spec).expanduser().resolve())
    if colon and Path(path).expanduser().exists():
        return f"{name}:{Path(path).expanduser().resolve()}"
    return spec


def check_free(folder: Path) -> None:
    """Raises ConfigError where `folder` holds something that is no bundle: it is never overwritten."""
    storage.settle(folder)
    taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    if taken and not (folder / CARD).is_file():
        raise errors.ConfigError(
            doing=f"writing the bundle {folder}",
            met=f"something that is no bundle is there (it has no {CARD})",
            todo="choose another folder",
        )


def _fill(folder: Path, card: Card, target: Target, drafters: Mapping[str, Packed], run: Mapping[str, Any]) -> None:
    if card.adapter:
        lora.save(target, folder / "adapter")
    for name, packed in drafters.items():
        place = folder / _place(card, name)
        place.mkdir(parents=True)
        store.save(
            packed.drafter,
            name,
            packed.config,
            place,
            shape=card.shape,
            vocabulary=packed.vocabulary,
            extra={"target_fingerprint": card.tuned_fingerprint},
        )
    (folder / RUN).write_text(_json(run), encoding="utf-8")
    (folder / CARD).write_text(_json(configs.to_dict(card)), encoding="utf-8")


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _place(card: Card, name: str) -> Path:
    return Path("drafter") if name == card.drafter else Path("drafters") / name


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "unknown"
    return found


def template_hash(target: Target | Image) -> str:
    """A hash of the chat template by which rows became tokens; another template means other prompts."""
    template = target.tokenizer.chat_template
    text = template if isinstance(template, str) else json.dumps(template, sort_keys=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def read_card(folder: Path) -> Card:
    """What bundle.json says; no model is loaded. Raises StorageError where there is no bundle of a known format."""
    storage.settle(folder)
    doing, todo = f"reading the bundle {folder}", "give a folder that `draftune tune` wrote"
    if not folder.is_dir():
        raise errors.StorageError(doing=doing, met="no such folder", todo=todo)
    try:
        settings = json.loads((folder / CARD).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise errors.StorageError(doing=doing, met=f"it has no {CARD}", todo=todo) from error
    except (OSError, ValueError) as error:
        raise errors.StorageError(doing=doing, met=f"{CARD} cannot be read ({error})", todo=todo) from error
    known = settings.get("format") if isinstance(settings, dict) else None
    if known != FORMAT:
        met = f"{CARD} has format {known!r}, known is {FORMAT}"
        raise errors.StorageError(doing=doing, met=met, todo="read it with the version of draftune that wrote it")
    return configs.make(Card, settings, doing=doing)


def read(
    folder: Path,
    *,
    dtype: str = "auto",
    device: str = "auto",
    base: str | None = None,
    drafters: Iterable[str] | None = None,
    progress: Any = None,
) -> Bundle[Target]:
    """The bundle in `folder`, its adapter active and its drafters ready. Only the named drafters are loaded, if named.

    `base` says where the base model is now, if it has moved. Raises MismatchError where base model, chat template,
    adapter or drafter are not the ones that were written together.
    """
    card = read_card(folder)
    names = card.drafters if drafters is None else tuple(drafters)
    for name in names:
        _check_name(folder, card, name)
    target = load.load(base or card.base_place, dtype=dtype, device=device, progress=progress)
    target.name = base or card.base
    _check_base(folder, card, target)
    if card.adapter:
        target = lora.attach(target, folder / "adapter")
    if target.fingerprint() != card.tuned_fingerprint:
        raise _other_adapter(folder, "the adapter in adapter/ is another than its drafters were trained for")
    drafters = {name: _drafter(folder, card, target, name) for name in names}
    return Bundle(folder=folder, card=card, target=target, drafters=drafters)


def read_image(
    folder: Path,
    *,
    dtype: str = "auto",
    device: str = "auto",
    base: str | None = None,
    drafters: Iterable[str] | None = None,
) -> Bundle[Image] | None:
    """The bundle with its target as `keep_image` left it in the cache: read in a moment, good for speaking alone.

    None where it is not there for this device and precision, or where base model or adapter have changed since.
    Raises as `read` does for a template, name or drafter that does not fit.
    """
    card = read_card(folder)
    names = card.drafters if drafters is None else tuple(drafters)
    for name in names:
        _check_name(folder, card, name)
    place, path = devices.choose(device), None
    if place.type == "cpu":
        path = _image_place(folder, card, devices.precision(dtype, place), base)
    if path is None or not path.is_file():
        return None
    target = images.read(path, load.tokenizer(base or card.base_place), base or card.base)
    if target is None:
        return None
    _check_template(folder, card, target)
    loaded = {name: _drafter(folder, card, target, name) for name in names}
    return Bundle(folder=folder, card=card, target=target, drafters=loaded)


def keep_image(bundle: Bundle[Target], base: str | None = None) -> None:
    """Nothing; the weights that the packed runner of a bundle reads stay in the user's cache for `read_image`."""
    path = _image_place(bundle.folder, bundle.card, bundle.target.dtype, base)
    if path is not None:
        images.keep(bundle.target, path)


def _image_place(folder: Path, card: Card, dtype: torch.dtype, base: str | None) -> Path | None:
    """Where the target's image lies, or would; None on a machine without a compiler."""
    sources = [*load.files(base or card.base_place), *(folder / "adapter").glob("adapter_*")]
    try:
        return images.place(card.tuned_fingerprint, dtype, sources)
    except errors.TargetError:
        return None


def known_alpha(folder: Path, name: str) -> list[float]:
    """α_1, α_2, .. of a drafter on held-out rows, as its training found them; empty where that is not known."""
    try:
        found = json.loads((folder / RUN).read_text(encoding="utf-8"))["acceptance"][name]
        return [found[f"alpha_{k}"] for k in range(1, len(found)) if f"alpha_{k}" in found]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _check_name(folder: Path, card: Card, name: str) -> None:
    if name not in card.drafters:
        raise errors.UnknownNameError(
            doing=f"reading the bundle {folder}",
            met=f"it holds no drafter {name!r}",
            todo=errors.nearest(name, card.drafters),
        )


def _check_base(folder: Path, card: Card, target: Target) -> None:
    doing = f"reading the bundle {folder}"
    for name, what in (("hidden_size", "width"), ("vocab_size", "vocabulary")):
        made, met = getattr(card.shape, name), getattr(target.shape, name)
        if made != met:
            raise errors.MismatchError(
                doing=doing,
                met=f"its base model has {what} {made}, the model loaded has {met}",
                todo="give the model that it was tuned from",
            )
    if target.fingerprint() != card.base_fingerprint:
        raise errors.MismatchError(
            doing=doing,
            met=f"the weights of {target.name} are not those that it was tuned from",
            todo="give the model that it was tuned from",
        )
    _check_template(folder, card, target)


def _check_template(folder: Path, card: Card, target: Target | Image) -> None:
    if template_hash(target) != card.template:
        raise errors.MismatchError(
            doing=f"reading the bundle {folder}",
            met="the tokenizer's chat template is not the one that it was tuned with",
            todo="restore the template, or tune again",
        )


def _drafter(folder: Path, card: Card, target: Target | Image, name: str) -> Drafter:
    drafter, known = store.load(folder / _place(card, name), target.parts())
    if known.name != name:
        raise errors.MismatchError(
            doing=f"reading the bundle {folder}",
            met=f"{_place(card, name)} holds the drafter {known.name!r} where {CARD} names {name!r}",
            todo="restore the folder, or tune again",
        )
    if known.extra.get("target_fingerprint") != card.tuned_fingerprint:
        raise _other_adapter(folder, f"its drafter {name!r} was trained for another adapter than it holds")
    return drafter


def _other_adapter(folder: Path, met: str) -> errors.MismatchError:
    return errors.MismatchError(
        doing=f"reading the bundle {folder}", met=met, todo="keep the adapter and the drafter of one tuning together"
    )
