"""A packed target kept on the disk, its adapter folded in: read in a moment, without the code of its model.

One safetensors file a target, in the user's cache: what the kernel reads, as it reads it. The weights were tried
against the model's own forward before they were kept.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from draftune import config as configs
from draftune import errors, kernels, storage
from draftune.kernels import build
from draftune.target.base import TargetParts, TargetShape
from draftune.target.packed.rotary import Frequencies
from draftune.target.packed.runner import PackedRunner
from draftune.target.packed.weights import Numbers, Packed, link
from draftune.target.target import Target
from draftune.types import RunnerKind

FORMAT = 1  # raised when a file's meaning changes
MOST_BYTES = 4_000_000_000  # of all files together; those unused for the longest time go first
DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16}


@dataclass(frozen=True, kw_only=True)
class Image:
    """A target that speaks and lends, and does nothing else: no adapter to switch off, no general runner."""

    name: str
    tokenizer: Any
    shape: TargetShape
    packed: Packed
    head_VD: Tensor  # as the model stores it; the embedding itself where they are tied
    head_bias_V: Tensor | None

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        return self.packed.dtype

    def parts(self) -> TargetParts:
        """Embedding and head as the model stores them."""
        return TargetParts(
            shape=self.shape,
            embedding_VD=self.packed.tensors["embedding"],
            head_VD=self.head_VD,
            head_bias_V=self.head_bias_V,
        )

    def runner(self, kind: RunnerKind = "auto", *, release: bool = False) -> PackedRunner:
        """A packed runner with a memory of its own. Raises TargetError where another kind is asked for."""
        if kind not in ("auto", "packed"):
            met, todo = "only its packed weights were read", "load the model itself"
            raise errors.TargetError(doing=f"opening the {kind} runner of {self.name!r}", met=met, todo=todo)
        return PackedRunner(self.shape, self.packed)


def folder() -> Path:
    """Where images lie."""
    return storage.cache_folder() / "packed"


def place(fingerprint: str, dtype: torch.dtype, sources: Iterable[Path]) -> Path:
    """The file of a target of this fingerprint, made from these files as they are now, for this machine's kernel."""
    states = [(str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in sorted(sources)]
    known = json.dumps([FORMAT, fingerprint, str(dtype), states, build.version()])
    return folder() / f"{hashlib.sha256(known.encode()).hexdigest()[:32]}.safetensors"


def keep(target: Target, path: Path) -> None:
    """Write the file of a target that a packed runner reads, if it does.

    Nothing is written where it would be too large or the disk refuses: the target is then packed again next time.
    """
    packed = target.packed
    if packed is None or not isinstance(packed.rotary, Frequencies):
        return
    head = target.causal.get_output_embeddings()
    tensors = {**packed.tensors, "speeds": packed.rotary.speeds_R}
    if head.weight.data_ptr() != packed.tensors["embedding"].data_ptr():
        tensors["lent_head"] = head.weight.detach()
    if head.bias is not None:
        tensors["lent_head_bias"] = head.bias.detach()
    known = {
        "name": target.name,
        "shape": asdict(target.shape),
        "numbers": asdict(packed.numbers),
        "scale": packed.rotary.scale,
    }
    size = sum(one.numel() * one.element_size() for one in tensors.values())
    if size > MOST_BYTES:
        return
    partial = path.with_name(f"{storage.PARTIAL}{os.getpid()}-{path.name}")
    try:
        with storage.reporting(f"keeping the packed weights of {target.name!r}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            _make_room(MOST_BYTES - size)
            try:
                safetensors.torch.save_file(tensors, partial, metadata={"draftune": json.dumps(known)})
                os.replace(partial, path)
            finally:
                partial.unlink(missing_ok=True)
    except errors.StorageError:
        return


def read(path: Path, tokenizer: Any, name: str) -> Image | None:
    """The target in a file; None where there is none that can be read."""
    try:
        known, tensors = _read(path)
        os.utime(path)
    except (OSError, ValueError, KeyError):
        return None
    speeds_R = tensors.pop("speeds")
    doing = f"reading the packed weights {path}"
    numbers = configs.make(Numbers, known["numbers"], doing=doing)
    return Image(
        name=name,
        tokenizer=tokenizer,
        shape=configs.make(TargetShape, known["shape"], doing=doing),
        packed=link(kernels.kernel(), numbers, tensors, Frequencies(speeds_R, known["scale"])),
        head_VD=tensors.get("lent_head", tensors["embedding"]),
        head_bias_V=tensors.get("lent_head_bias"),
    )


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The settings and the tensors of a file, read into one block of large pages: a mapped file would be slower."""
    with path.open("rb", buffering=0) as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        known = json.loads(header.pop("__metadata__")["draftune"])
        num_bytes = max(one["data_offsets"][1] for one in header.values())
        block = kernels.roomy(num_bytes)
        view, done = memoryview(block.numpy()), 0  # type: ignore[arg-type]
        while done < num_bytes:
            read = file.readinto(view[done:])
            if not read:
                raise ValueError(f"{path} ends after {done} of {num_bytes} bytes")
            done += read
    return known, {name: _cut(block, one) for name, one in header.items()}


def _cut(block: Tensor, entry: Mapping[str, Any]) -> Tensor:
    start, end = entry["data_offsets"]
    return block[start:end].view(DTYPES[entry["dtype"]]).view(entry["shape"])


def _make_room(most_bytes: int) -> None:
    """Remove the files that were not used for the longest time until the others fit."""
    files = sorted(folder().glob("*.safetensors"), key=lambda one: one.stat().st_mtime, reverse=True)
    total = 0
    for path in files:
        total += path.stat().st_size
        if total > most_bytes:
            path.unlink(missing_ok=True)
