"""A target from a folder, a hub id, a .gguf file, an adapter folder or one of the named models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from draftune import errors
from draftune.target import anatomy, fingerprint, lora
from draftune.target import device as devices
from draftune.target.models import MODELS
from draftune.target.target import Target

__all__ = ["MODELS", "Progress", "load", "tokenizer"]

WEIGHTS = ("config.json", "*.safetensors", "*.bin", "*.index.json")
Progress = Callable[[str, float], None]  # what is being done, and the fraction of it that is


def load(source: str, *, dtype: str = "auto", device: str = "auto", progress: Progress | None = None) -> Target:
    """The target behind `source`, ready to run.

    `dtype` "auto" is bfloat16 where the device computes it natively, float32 elsewhere; `device` "auto" is the first
    of cuda, mps and cpu that is there. `progress` hears of downloads; without it a bar is drawn on stderr.
    """
    place = devices.choose(device)
    number = devices.precision(dtype, place)
    path = Path(source).expanduser()
    if path.is_dir() and lora.is_adapter(path):
        base = load(_base_of(path), dtype=dtype, device=device, progress=progress)
        return lora.attach(base, path)
    if path.is_file():
        return _from_gguf(path, source, number, place)
    return _from_pretrained(_place(source, progress), source, number, place)


def tokenizer(source: str) -> Any:
    """The tokenizer of what `load` would load, without its weights."""
    path = Path(source).expanduser()
    if path.is_dir() and lora.is_adapter(path):
        return tokenizer(_base_of(path))
    extra = {"gguf_file": path.name} if path.is_file() else {}
    doing, todo = f"loading the tokenizer of {source!r}", "give a model folder, a hub id, a .gguf file or a named model"
    return _tokenizer(_place(source, None), doing, todo, extra)


def files(source: str) -> list[Path]:
    """The files on this machine that a target from `source` would be made of; none for a hub id."""
    path = Path(source).expanduser()
    if path.is_dir() and lora.is_adapter(path):
        return [*path.glob("adapter_*"), *files(_base_of(path))]
    if path.is_file():
        return [path]
    folder = Path(_place(source, None))
    return [one for kind in WEIGHTS for one in folder.glob(kind)] if folder.is_dir() else []


def _place(source: str, progress: Progress | None) -> str:
    """The folder or hub id behind a source: of a .gguf file its folder, of a named model where it was unpacked."""
    path = Path(source).expanduser()
    if path.is_file():
        return str(path.parent)
    if path.is_dir():
        return str(path)
    if source in MODELS.entries():
        return str(MODELS.load(source)(progress))
    if source.startswith((".", "/", "~")) or source.count("/") > 1 or source.endswith(".gguf"):
        raise errors.TargetError(
            doing=f"loading {source!r}", met="there is no such file or folder", todo="check the path"
        )
    return source


def _tokenizer(place: str, doing: str, todo: str, extra: dict[str, Any]) -> Any:
    from transformers import AutoTokenizer

    made = _attempt(lambda: AutoTokenizer.from_pretrained(place, **extra), doing, todo)
    if made.pad_token is None:  # one that it already has, so that no embedding is resized
        made.pad_token = made.unk_token or made.eos_token or made.bos_token
    return made


def _base_of(adapter: Path) -> str:
    base = json.loads((adapter / "adapter_config.json").read_text()).get("base_model_name_or_path")
    if not base:
        raise errors.TargetError(
            doing=f"loading {str(adapter)!r}",
            met="it is an adapter that does not name its base model",
            todo="load the base model and attach the adapter to it",
        )
    return base


def _from_gguf(path: Path, name: str, dtype: torch.dtype, device: torch.device) -> Target:
    import transformers

    if path.suffix != ".gguf":
        raise errors.TargetError(
            doing=f"loading {name!r}", met="the file is no .gguf", todo="give a model folder, a .gguf file or a hub id"
        )
    extra: dict[str, Any] = {"gguf_file": path.name}
    if hasattr(transformers, "GgufConfig"):  # before it came, weights were always unpacked on loading
        extra["quantization_config"] = transformers.GgufConfig(dequantize=True)  # packed, no training
    target = _from_pretrained(str(path.parent), name, dtype, device, gguf_file=path.name, model_extra=extra)
    if hasattr(target.causal.config, "quantization_config"):
        del target.causal.config.quantization_config
    return target


def _from_pretrained(
    place: str,
    name: str,
    dtype: torch.dtype,
    device: torch.device,
    *,
    gguf_file: str | None = None,
    model_extra: dict[str, Any] | None = None,
) -> Target:
    from transformers import AutoConfig

    doing, extra = f"loading {name!r}", {"gguf_file": gguf_file} if gguf_file else {}
    config = _attempt(lambda: AutoConfig.from_pretrained(place, **extra), doing, _hint(place, name))
    _refuse_other_kinds(config, doing)
    anatomy.refuse_unserved(config)
    spoken = _tokenizer(place, f"{doing}, its tokenizer", "add the tokenizer's files to it", extra)
    model = _weights(place, config, dtype, device, doing, model_extra or {})
    return Target(model, spoken, name)


def _weights(
    place: str, config: Any, dtype: torch.dtype, device: torch.device, doing: str, extra: dict[str, Any]
) -> Any:
    from transformers import AutoModelForCausalLM

    if getattr(config, "attn_logit_softcapping", None):
        extra = {**extra, "attn_implementation": "eager"}  # sdpa would drop the cap
    if device.type != "cpu":
        extra = {**extra, "device_map": {"": device}}
    half = dtype == torch.float16
    todo = "use a complete checkpoint of a decoder-only text model that transformers can load"
    model, notes = _attempt(
        lambda: AutoModelForCausalLM.from_pretrained(
            place, dtype="auto" if half else dtype, output_loading_info=True, ignore_mismatched_sizes=True, **extra
        ),
        doing,
        todo,
    )
    missing, odd = sorted(notes["missing_keys"]), sorted(str(key[0]) for key in notes["mismatched_keys"])
    if missing or odd:  # transformers would fill them with noise
        met = f"{len(missing)} weights are missing" if missing else f"{len(odd)} weights have other shapes than it says"
        raise errors.TargetError(doing=doing, met=f"{met}, such as {(missing or odd)[0]!r}", todo=todo)
    if half:
        fingerprint.remember(model)
        model = model.to(dtype)
    return model.eval().requires_grad_(False)


def _attempt(action: Callable[[], Any], doing: str, todo: str) -> Any:
    try:
        return action()
    except errors.DraftuneError:
        raise
    except Exception as error:  # transformers raises OSError, ValueError, KeyError, SafetensorError and more
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if "couldn't connect" in first:
            first = "the hub cannot be reached, and the hub's cache does not hold it"
        raise errors.TargetError(doing=doing, met=first.rstrip(".: ")[:300], todo=todo) from error


def _hint(place: str, name: str) -> str:
    """What to do about a source without a readable config."""
    if Path(place).is_dir():
        return "give a folder with the config, weights and tokenizer of one model"
    close = errors.nearest(name, MODELS.entries())
    return close if close.startswith("did you mean") else "check the hub id and the network, or give a folder"


def _refuse_other_kinds(config: Any, doing: str) -> None:
    """Only architectures that end in a causal LM's name; BERT too would load as one, and be nonsense."""
    kinds = getattr(config, "architectures", None) or []
    if kinds and not any("CausalLM" in kind or "LMHead" in kind for kind in kinds):
        raise errors.TargetError(
            doing=doing, met=f"it is a {kinds[0]}, not a causal language model", todo="use a decoder-only text model"
        )
