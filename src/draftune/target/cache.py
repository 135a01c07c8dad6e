"""A static key/value cache with a length per row: a rejected token is simply not counted.

Every layer, sliding ones too, keeps one buffer [B,H,capacity,D]. A forward writes the keys of token m of row b at slot
`lengths[b] + m`; what lies beyond a row's length is garbage that the masks hide and later tokens overwrite.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import Cache, StaticLayer


class Place:
    """Where the tokens of the running forward go, and how much of the buffers it sees. Shared by all layers."""

    def __init__(self) -> None:
        self.move(torch.zeros(0, 0, dtype=torch.int64), 0)

    def move(self, slots_BM: Tensor, view: int) -> None:
        """Point at new slots; attention sees the first `view` of each row."""
        self.slots_BM, self.view = slots_BM, view
        self._flat: dict[tuple[int, int, torch.device], Tensor] = {}

    def flat(self, num_heads: int, capacity: int, device: torch.device) -> Tensor:
        """Row numbers [B*H*M] of the slots in a buffer seen as [B*H*capacity, D], made once a forward."""
        key = (num_heads, capacity, device)
        if key not in self._flat:
            self._flat[key] = flat_index(self.slots_BM, num_heads, capacity).to(device)
        return self._flat[key]


def flat_index(slots_BM: Tensor, num_heads: int, capacity: int) -> Tensor:
    """Row numbers [B*H*M] of slots in a buffer [B,H,capacity,D] seen as [B*H*capacity, D]."""
    num_rows = slots_BM.shape[0]
    heads_BH1 = torch.arange(num_rows * num_heads, device=slots_BM.device).view(num_rows, num_heads, 1)
    return (heads_BH1 * capacity + slots_BM[:, None, :]).flatten()


class RaggedLayer(StaticLayer):
    """The keys and values of one decoder layer."""

    is_croppable = False
    keys: Tensor  # type: ignore[assignment]  # [B,H,capacity,D]
    values: Tensor  # type: ignore[assignment]

    def __init__(self, capacity: int, place: Place) -> None:
        super().__init__(max_cache_len=capacity)
        self.place = place

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Keys and values [B,H,view,D] after those of this forward are written."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)  # zeros: NaN in an unused slot would leak through 0*NaN
        index = self.place.flat(key_states.shape[1], self.max_cache_len, key_states.device)
        for buffer, states in ((self.keys, key_states), (self.values, value_states)):
            _write(buffer, index, states.reshape(-1, states.shape[-1]))
        view = self.place.view
        return self.keys[:, :, :view], self.values[:, :, :view]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of the keys that attention sees."""
        return self.place.view, 0

    def get_seq_length(self) -> int:
        """The tokens before this forward's in the longest row; positions are always given, so nothing depends on it."""
        return self.place.view - self.place.slots_BM.shape[1]

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` slots a row."""
        if self.is_initialized:
            self.keys = _padded(self.keys, capacity)
            self.values = _padded(self.values, capacity)
        self.max_cache_len = capacity

    def copy_slots(self, sources_BN: Tensor, targets_BN: Tensor) -> None:
        """Copy keys and values of each row from some slots to others."""
        num_heads = self.keys.shape[1]
        read = flat_index(sources_BN, num_heads, self.max_cache_len).to(self.keys.device)
        write = flat_index(targets_BN, num_heads, self.max_cache_len).to(self.keys.device)
        for buffer in (self.keys, self.values):
            _write(buffer, write, buffer.view(-1, buffer.shape[-1])[read])


def _write(buffer: Tensor, index: Tensor, rows: Tensor) -> None:
    flat = buffer.view(-1, buffer.shape[-1])
    try:
        flat.index_copy_(0, index, rows)
    except NotImplementedError:  # devices without index_copy_
        flat[index] = rows


def _padded(buffer: Tensor, capacity: int) -> Tensor:
    extra = buffer.new_zeros(*buffer.shape[:2], capacity - buffer.shape[2], buffer.shape[3])
    return torch.cat([buffer, extra], dim=2)


class RaggedCache(Cache):
    """One RaggedLayer for each decoder layer, all writing at the same place."""

    def __init__(self, num_layers: int, capacity: int) -> None:
        self.place = Place()
        self.capacity = capacity
        super().__init__(layers=[RaggedLayer(capacity, self.place) for _ in range(num_layers)])

    def move(self, slots_BM: Tensor, view: int) -> None:
        """Prepare for a forward that writes at `slots_BM` and sees `view` slots; the buffers grow where needed."""
        if view > self.capacity:
            self.capacity = -(-view // 64) * 64
            for layer in self.layers:
                layer.grow(self.capacity)  # type: ignore[union-attr]
        self.place.move(slots_BM, view)

    def copy_slots(self, sources_BN: Tensor, targets_BN: Tensor) -> None:
        """Copy every layer's keys and values of each row from some slots to others."""
        for layer in self.layers:
            layer.copy_slots(sources_BN, targets_BN)  # type: ignore[union-attr]
