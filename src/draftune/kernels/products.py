"""Packed matrices and the cells of recurrent networks, for a few rows at a time."""

from __future__ import annotations

import ctypes
from ctypes import c_double, c_int64, c_void_p
from functools import cache

import torch
from torch import Tensor

from draftune import errors
from draftune.kernels.build import kernel

LANES, BLOCK = 16, 32  # as in numbers.h and products.h
DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}


def pack(weight_ND: Tensor) -> Tensor:
    """A matrix as the kernel reads it: in blocks of 32 rows, the last one filled up with zeros; same dtype, flat."""
    library, weight_ND = _library(), weight_ND.detach().contiguous()
    columns, depth = weight_ND.shape
    packed = roomy(-(-columns // BLOCK) * BLOCK * depth * weight_ND.element_size()).view(weight_ND.dtype)
    getattr(library, f"pack_{DTYPES[weight_ND.dtype]}")(weight_ND.data_ptr(), columns, depth, packed.data_ptr())
    return packed


def roomy(num_bytes: int) -> Tensor:
    """Memory [num_bytes] uint8, not yet written, in large pages where the system has them."""
    memory = torch.empty(num_bytes, dtype=torch.uint8)
    _library().advise(memory.data_ptr(), num_bytes)
    return memory


def padded(vector_N: Tensor) -> Tensor:
    """A vector in fp32, filled up with zeros to whole blocks, as the kernel reads biases and norms."""
    return torch.nn.functional.pad(vector_N.detach().float(), (0, -vector_N.numel() % BLOCK)).contiguous()


def served(*tensors: Tensor) -> bool:
    """Whether a module of these weights can be packed here: on a CPU, in fp32, with a compiler at hand."""
    return all(one.device.type == "cpu" and one.dtype == torch.float32 for one in tensors) and available()


@cache
def available() -> bool:
    """Whether the kernel could be built here; asked once in a process."""
    try:
        kernel()
    except errors.TargetError:
        return False
    return True


class Matrix:
    """A linear layer whose weights were packed in bfloat16; what goes in and comes out is fp32."""

    def __init__(self, weight_ND: Tensor, bias_N: Tensor | None = None) -> None:
        self.columns, self.depth = weight_ND.shape
        if self.depth % LANES:
            raise ValueError(f"{self.depth} columns where {LANES} are read at once")
        self._packed = pack(weight_ND.bfloat16())
        self._bias = None if bias_N is None else padded(bias_N)
        self._library = _library()

    def __call__(self, x_MD: Tensor, *, add_MN: Tensor | None = None, silu: bool = False) -> Tensor:
        """act(x W + b + add) [M,N], act being SiLU or nothing."""
        if x_MD.dim() != 2 or x_MD.shape[1] != self.depth:
            raise ValueError(f"{tuple(x_MD.shape)} where [rows, {self.depth}] is read")
        x_MD = x_MD.float().contiguous()
        add_MN = None if add_MN is None else add_MN.float().contiguous()
        out_MN = torch.empty(x_MD.shape[0], self.columns)
        self._library.linear_bfloat16(
            self._packed.data_ptr(),
            None if self._bias is None else self._bias.data_ptr(),
            x_MD.data_ptr(),
            x_MD.shape[0],
            self.depth,
            self.columns,
            None if add_MN is None else add_MN.data_ptr(),
            silu,
            out_MN.data_ptr(),
            torch.get_num_threads(),
        )
        return out_MN


class NormalizedRows:
    """Rows of a table [V,D], looked up by token and brought to root-mean-square 1, in fp32."""

    def __init__(self, table_VD: Tensor, epsilon: float) -> None:
        self._table_VD, self._epsilon, self._library = table_VD.detach().contiguous(), epsilon, _library()
        self._embed = getattr(self._library, f"embed_{DTYPES[table_VD.dtype]}")

    def __call__(self, tokens_B: Tensor) -> Tensor:
        """[B,D] of tokens [B]."""
        tokens_B, width = tokens_B.contiguous(), self._table_VD.shape[1]
        out_BD = torch.empty(len(tokens_B), width)
        pointers = self._table_VD.data_ptr(), tokens_B.data_ptr()
        self._embed(*pointers, len(tokens_B), width, self._epsilon, out_BD.data_ptr())
        return out_BD


def largest(x: Tensor) -> Tensor:
    """The place of the largest number over the last dimension, the first of several: torch's argmax, faster in fp32."""
    if x.dtype != torch.float32 or x.device.type != "cpu" or not x.is_contiguous() or not available():
        return x.argmax(dim=-1)
    places = torch.empty(x.shape[:-1], dtype=torch.int64)
    _library().largest_float32(x.data_ptr(), places.numel(), x.shape[-1], places.data_ptr())
    return places


def rnn_cell(from_x_BW: Tensor, from_h_BW: Tensor) -> Tensor:
    """tanh(x + h) [B,W]."""
    hidden_BW = torch.empty_like(from_h_BW)
    _library().rnn_cell(*hidden_BW.shape, from_x_BW.data_ptr(), from_h_BW.data_ptr(), hidden_BW.data_ptr())
    return hidden_BW


def gru_cell(from_x_BX: Tensor, from_h_BX: Tensor, before_BW: Tensor) -> Tensor:
    """The next state [B,W] of torch's GRU from its two products [B,3W]."""
    hidden_BW, before_BW = torch.empty_like(before_BW), before_BW.contiguous()
    pointers = (one.data_ptr() for one in (from_x_BX, from_h_BX, before_BW, hidden_BW))
    _library().gru_cell(*hidden_BW.shape, *pointers)
    return hidden_BW


def lstm_cell(from_x_BX: Tensor, from_h_BX: Tensor, before_BW: Tensor) -> tuple[Tensor, Tensor]:
    """The next memory and hidden state [B,W] of torch's LSTM from its two products [B,4W]."""
    memory_BW, hidden_BW, before_BW = torch.empty_like(before_BW), torch.empty_like(before_BW), before_BW.contiguous()
    pointers = (one.data_ptr() for one in (from_x_BX, from_h_BX, before_BW, memory_BW, hidden_BW))
    _library().lstm_cell(*hidden_BW.shape, *pointers)
    return memory_BW, hidden_BW


@cache
def _library() -> ctypes.CDLL:
    """The kernel with the types of what it takes."""
    library = kernel()
    library.advise.argtypes = [c_void_p, c_int64]
    for name in DTYPES.values():
        getattr(library, f"pack_{name}").argtypes = [c_void_p, c_int64, c_int64, c_void_p]
    numbers = [c_int64] * 3
    library.linear_bfloat16.argtypes = [c_void_p, c_void_p, c_void_p, *numbers, c_void_p, c_int64, c_void_p, c_int64]
    for name in DTYPES.values():
        getattr(library, f"embed_{name}").argtypes = [c_void_p, c_void_p, c_int64, c_int64, c_double, c_void_p]
    library.largest_float32.argtypes = [c_void_p, c_int64, c_int64, c_void_p]
    library.rnn_cell.argtypes = [c_int64, c_int64, *[c_void_p] * 3]
    library.gru_cell.argtypes = [c_int64, c_int64, *[c_void_p] * 4]
    library.lstm_cell.argtypes = [c_int64, c_int64, *[c_void_p] * 5]
    return library
