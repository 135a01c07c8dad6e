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
        self._step = kernel().recurrent_step_bfloat16
        self._step.argtypes = [c_void_p, c_int64, *[c_void_p] * 6, c_int64]

    def start(self, num_rows: int) -> Tensor:
        """Hidden state and, for an LSTM, memory [2,B,W], at zero."""
        return torch.zeros(2, num_rows, self.state)

    def step(self, state_2BW: Tensor, tokens_B: Tensor, context_BD: Tensor, part_BI: Tensor) -> Tensor:
        """The logits [B,V'] after one more token a row; the state is replaced. All arguments are contiguous."""
        num_rows = len(tokens_B)
        logits_BV = torch.empty(num_rows, self.columns)
        hidden = state_2BW.data_ptr()
        memory = hidden + 4 * num_rows * self.state
        pointers = tokens_B.data_ptr(), context_BD.data_ptr(), part_BI.data_ptr(), hidden, memory, logits_BV.data_ptr()
        self._step(ctypes.byref(self._net), num_rows, *pointers, torch.get_num_threads())
        return logits_BV

    def _pack(self, weight_ND: Tensor) -> int:
        self._held.append(pack(weight_ND.bfloat16()))
        return self._held[-1].data_ptr()

    def _pad(self, bias_N: Tensor) -> int:
        self._held.append(padded(bias_N))
        return self._held[-1].data_ptr()
