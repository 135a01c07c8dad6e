"""The head of a .gguf file, read in a fraction of a second where the general readers take ten.

Format: github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from draftune import errors

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    name: str
    shape: tuple[int, ...]  # as torch counts: rows first
    kind: int  # ggml's number of the quantisation
    start: int  # byte in the file


@dataclass(frozen=True, kw_only=True)
class Header:
    """What stands before the tensors: named values, and where each tensor lies."""

    values: dict[str, Any]
    tensors: tuple[TensorInfo, ...]


class _Reader:
    def __init__(self, buffer: Any) -> None:
        self.buffer, self.at = buffer, 0

    def number(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self.buffer, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def text(self) -> str:
        end = self.at + 8 + self.number("Q")
        text = self.buffer[self.at : end].decode("utf-8")
        self.at = end
        return text

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            return self.number(NUMBERS[kind])
        inner, count = self.number("I"), self.number("Q")
        return [self.value(inner) for _ in range(count)]


def read_header(path: Path) -> Header:
    """The header of the .gguf file at `path`. Raises TargetError for anything else."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
            return _header(_Reader(buffer))
    except (struct.error, KeyError, UnicodeDecodeError, ValueError) as error:
        raise errors.TargetError(
            doing=f"reading {str(path)!r}", met=f"it is no whole .gguf file ({error})", todo="fetch it again"
        ) from error


def _header(reader: _Reader) -> Header:
    magic, version = reader.number("4s"), reader.number("I")
    if magic != b"GGUF" or version not in (2, 3):
        raise ValueError(f"it starts with {magic!r}, version {version}")
    num_tensors, num_values = reader.number("Q"), reader.number("Q")
    values = {}
    for _ in range(num_values):
        name = reader.text()
        values[name] = reader.value(reader.number("I"))
    found = [_tensor(reader) for _ in range(num_tensors)]
    alignment = values.get("general.alignment", 32)
    base = -(-reader.at // alignment) * alignment
    tensors = (TensorInfo(name=name, shape=shape, kind=kind, start=base + at) for name, shape, kind, at in found)
    return Header(values=values, tensors=tuple(tensors))


def _tensor(reader: _Reader) -> tuple[str, tuple[int, ...], int, int]:
    name = reader.text()
    sizes = [reader.number("Q") for _ in range(reader.number("I"))]
    return name, tuple(reversed(sizes)), reader.number("I"), reader.number("Q")


def read_tensors(path: Path, header: Header) -> Iterator[tuple[str, np.ndarray]]:
    """Name and unpacked float32 values of each tensor, in the order of the file."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

    stored = np.memmap(path, dtype=np.uint8, mode="r")
    for info in header.tensors:
        kind = GGMLQuantizationType(info.kind)
        block_size, block_bytes = GGML_QUANT_SIZES[kind]
        row_bytes = info.shape[-1] // block_size * block_bytes
        num_rows = int(np.prod(info.shape[:-1]))
        packed = np.asarray(stored[info.start : info.start + num_rows * row_bytes]).reshape(num_rows, row_bytes)
        if kind == GGMLQuantizationType.F32:
            yield info.name, packed.view(np.float32).reshape(info.shape)
        else:
            yield info.name, dequantize(packed, kind).reshape(info.shape)
