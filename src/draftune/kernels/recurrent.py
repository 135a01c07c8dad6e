"""A recurrent cell and an MLP head in one call for each draft token."""

from __future__ import annotations

import ctypes
from ctypes import c_double, c_int64, c_void_p
from typing import Any

import torch
from torch import Tensor

from draftune.kernels.build import kernel
from draftune.kernels.products import pack, padded

GATES = {"rnn": 1, "gru": 3, "lstm": 4}


class CRecurrent(ctypes.Structure):
    """`Recurrent` of handed.h."""

    _fields_ = [
        *((name, c_int64) for name in ("table_is_bfloat16", "width", "state", "gates", "inner", "columns")),
        ("epsilon", c_double),
        *((name, c_void_p) for name in ("table", "from_x", "from_x_bias", "from_h", "from_h_bias")),
        *((name, c_void_p) for name in ("of_summary", "down", "down_bias", "out", "out_bias")),
    ]


class RecurrentMlp:
    """logits = out(context + down(silu(part + of_summary(s')))), s' = cell(normalized row of the table, s).

    Matrices are packed in bfloat16; states, context and logits are fp32.
    """

    def __init__(
        self,
        cell: str,
        table_VD: Tensor,
        epsilon: float,
        *,
        from_x: tuple[Tensor, Tensor],
        from_h: tuple[Tensor, Tensor],
        of_summary: Tensor,
        down: tuple[Tensor, Tensor],
        out: tuple[Tensor, Tensor],
    ) -> None:
        self._held: list[Any] = [table_VD.detach().contiguous()]
        self.columns, self.state = out[0].shape[0], from_h[0].shape[1]
        biased = {"from_x": from_x, "from_h": from_h, "down": down, "out": out}
        places = {name: self._pack(weight) for name, (weight, _) in biased.items()}
        places |= {f"{name}_bias": self._pad(bias) for name, (_, bias) in biased.items()}
        self._net = CRecurrent(
            table_is_bfloat16=table_VD.dtype == torch.bfloat16,
            width=table_VD.shape[1],
            state=self.state,
            gates=GATES[cell],
            inner=of_summary.shape[0],
            columns=self.columns,
            epsilon=epsilon,
            table=self._held[0].data_ptr(),
            of_summary=self._pack(of_summary),
            **places,
        )
        self._step, self._draft = kernel().recurrent_step, kernel().recurrent_draft
        self._step.argtypes = [c_void_p, c_int64, *[c_void_p] * 6, c_int64]
        self._draft.argtypes = [c_void_p, c_int64, *[c_void_p] * 5, c_int64, c_void_p, c_void_p, c_int64]

    def start(self, num_rows: int) -> Tensor:
        """Hidden state and, for an LSTM, memory [2,B,W], at zero."""
        return torch.zeros(2, num_rows, self.state)

    def step(self, state_2BW: Tensor, tokens_B: Tensor, context_BD: Tensor, part_BI: Tensor) -> Tensor:
        """The logits [B,V'] after one more token a row; the state is replaced. All arguments are contiguous."""
        logits_BV = torch.empty(len(tokens_B), self.columns)
        places = _places(tokens_B, context_BD, part_BI, *state_2BW.unbind(), logits_BV)
        self._step(ctypes.byref(self._net), len(tokens_B), *places, torch.get_num_threads())
        return logits_BV

    def draft(
        self, tokens_B: Tensor, context_BD: Tensor, part_BI: Tensor, num_drafts: int, ids_V: Tensor | None
    ) -> Tensor:
        """The most likely tokens [B,K] after the tokens given, one after another, in one call.

        `ids_V` names the columns of the logits; None where they are the tokens.
        """
        drafted_BK, state_2BW = torch.empty(len(tokens_B), num_drafts, dtype=torch.int64), self.start(len(tokens_B))
        places = _places(tokens_B, context_BD, part_BI, *state_2BW.unbind())
        named = None if ids_V is None else ids_V.data_ptr()
        threads = torch.get_num_threads()
        self._draft(ctypes.byref(self._net), len(tokens_B), *places, num_drafts, named, drafted_BK.data_ptr(), threads)
        return drafted_BK

    def _pack(self, weight_ND: Tensor) -> int:
        self._held.append(pack(weight_ND.bfloat16()))
        return self._held[-1].data_ptr()

    def _pad(self, bias_N: Tensor) -> int:
        self._held.append(padded(bias_N))
        return self._held[-1].data_ptr()


def _places(*tensors: Tensor) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors]
