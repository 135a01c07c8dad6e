"""The runner over packed weights: one call of the kernel reads a block."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p

import torch
from torch import Tensor

from draftune.target.base import TargetShape
from draftune.target.blocks import Block, BlockRunner
from draftune.target.packed.weights import Packed

STEP = 64  # slots by which the memory grows
TABLE = 256  # positions by which the rotary table grows


class CBlock(ctypes.Structure):
    """`Block` of handed.h."""

    _fields_ = [
        *((name, c_int64) for name in ("num_rows", "num_tokens", "capacity", "view")),
        *((name, c_void_p) for name in ("tokens", "slots", "positions", "ancestors", "depths", "cosine", "sine")),
        *((name, c_void_p) for name in ("keys", "values")),
        ("num_taps", c_int64),
        *((name, c_void_p) for name in ("taps", "heard", "final")),
        ("num_threads", c_int64),
    ]


class PackedRunner(BlockRunner):
    """Implements `target.base.Runner`: what it says after a prefix does not depend on how the prefix was read."""

    kind = "packed"

    def __init__(self, shape: TargetShape, packed: Packed) -> None:
        super().__init__(shape, torch.device("cpu"))
        self._packed = packed
        self._read_block = getattr(packed.kernel, f"read_{packed.suffix}")
        self._read_block.argtypes = [c_void_p, c_void_p]
        self._speak = getattr(packed.kernel, f"speak_{packed.suffix}")
        self._speak.argtypes = [c_void_p, c_void_p, c_int64, c_void_p, c_int64]
        self._cosine_PR = self._sine_PR = torch.zeros(0, packed.model.rotary // 2)

    def _make_room(self, num_rows: int, capacity: int) -> None:
        model = self._packed.model
        sizes = (model.num_layers, num_rows, model.groups, capacity, model.head_width)
        self._keys_LBGCE, self._values_LBGCE = (torch.zeros(sizes, dtype=self._packed.dtype) for _ in range(2))

    def _read(self, block: Block) -> tuple[Tensor, Tensor]:
        least, most = (int(one) for one in block.tokens.aminmax())
        if least < 0 or most >= self._packed.numbers.num_embeddings:
            odd = least if least < 0 else most
            raise IndexError(f"token {odd} where the model knows 0..{self._packed.numbers.num_embeddings - 1}")
        self._grow(block)
        model, (num_rows, num_tokens) = self._packed.model, block.tokens.shape
        tokens_BM, slots_BM, positions_BM = (
            one.contiguous() for one in (block.tokens, block.slots, block.positions)
        )  # held here while the kernel reads them
        depths_M = None if block.depths is None else block.depths.contiguous()
        ancestors_MM = None if block.ancestors is None else block.ancestors.to(torch.uint8).contiguous()
        taps = torch.tensor(self._taps, dtype=torch.int64)
        final_BMD = torch.empty(num_rows, num_tokens, model.width, dtype=self._packed.dtype)
        heard_BMLD = torch.empty(num_rows, num_tokens, len(self._taps), model.width, dtype=self._packed.dtype)
        call = CBlock(
            num_rows=num_rows,
            num_tokens=num_tokens,
            capacity=self._keys_LBGCE.shape[3],
            view=block.view,
            tokens=tokens_BM.data_ptr(),
            slots=slots_BM.data_ptr(),
            positions=positions_BM.data_ptr(),
            ancestors=None if ancestors_MM is None else ancestors_MM.data_ptr(),
            depths=None if depths_M is None else depths_M.data_ptr(),
            cosine=self._cosine_PR.data_ptr(),
            sine=self._sine_PR.data_ptr(),
            keys=self._keys_LBGCE.data_ptr(),
            values=self._values_LBGCE.data_ptr(),
            num_taps=len(self._taps),
            taps=taps.data_ptr(),
            heard=heard_BMLD.data_ptr(),
            final=final_BMD.data_ptr(),
            num_threads=torch.get_num_threads(),
        )
        self._read_block(ctypes.byref(model), ctypes.byref(call))
        return final_BMD, heard_BMLD

    def _logits(self, hidden_BMD: Tensor) -> Tensor:
        """fp32 logits, in bfloat16 models too."""
        model, hidden_BMD = self._packed.model, hidden_BMD.contiguous()
        logits_BMV = torch.empty(*hidden_BMD.shape[:2], model.vocabulary)
        num_rows = hidden_BMD.shape[0] * hidden_BMD.shape[1]
        self._speak(
            ctypes.byref(model), hidden_BMD.data_ptr(), num_rows, logits_BMV.data_ptr(), torch.get_num_threads()
        )
        return logits_BMV

    def _copy_slots(self, sources_BN: Tensor, targets_BN: Tensor) -> None:
        rows = torch.arange(sources_BN.shape[0])[:, None]
        for memory_LBGCE in (self._keys_LBGCE, self._values_LBGCE):
            by_slot = memory_LBGCE.permute(1, 3, 0, 2, 4)  # a view: [B,C,L,G,E]
            by_slot[rows, targets_BN] = by_slot[rows, sources_BN]

    def _grow(self, block: Block) -> None:
        missing = block.view - self._keys_LBGCE.shape[3]
        if missing > 0:
            more = (0, 0, 0, -(-missing // STEP) * STEP)
            self._keys_LBGCE = torch.nn.functional.pad(self._keys_LBGCE, more)
            self._values_LBGCE = torch.nn.functional.pad(self._values_LBGCE, more)
        num_positions = min(-(-block.view // TABLE) * TABLE, self.shape.max_length)
        if num_positions > self._cosine_PR.shape[0]:
            self._cosine_PR, self._sine_PR = self._packed.rotary(num_positions)
