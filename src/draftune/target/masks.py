"""Who may see whom: the 4-D masks of a block of tokens after a length per row.

In a row with two committed tokens a b and a block c d, slots are 0 1 2 3: c sees a b c, d sees a b c d. With a sliding
window of 2, c sees b c and d sees c d.
"""

from __future__ import annotations

import torch
from torch import Tensor

from draftune.target.anatomy import Attention


def chain(slots_BM: Tensor, view: int, window: int | None) -> Tensor:
    """[B,1,M,view] bool: tokens that follow one another see every slot up to their own, within the window."""
    keys = torch.arange(view, device=slots_BM.device)
    queries_BM1 = slots_BM[:, :, None]
    seen = keys <= queries_BM1
    if window is not None:
        seen &= keys > queries_BM1 - window
    return seen[:, None]


def tree(lengths_B: Tensor, depths_M: Tensor, ancestors_MM: Tensor, view: int, window: int | None) -> Tensor:
    """[B,1,M,view] bool: a node sees the committed tokens, itself and its ancestors, within the window.

    Distances are counted in positions, `length + depth`, since siblings lie in different slots of one position.
    """
    num_nodes = depths_M.numel()
    offsets_BV = torch.arange(view, device=lengths_B.device) - lengths_B[:, None]
    nodes_BV = offsets_BV.clamp(0, num_nodes - 1)
    committed_BV = offsets_BV < 0
    in_block_BMV = ancestors_MM[:, nodes_BV].transpose(0, 1) & (offsets_BV < num_nodes)[:, None]
    seen_BMV = committed_BV[:, None] | in_block_BMV
    if window is not None:
        keys_BV = torch.where(committed_BV, offsets_BV, depths_M[nodes_BV])  # positions after the length
        seen_BMV &= keys_BV[:, None] > depths_M[:, None] - window
    return seen_BMV[:, None]


def dressed(masks: dict[str, Tensor], attention: Attention, dtype: torch.dtype) -> Tensor | dict[str, Tensor]:
    """The masks by layer type in the form the model takes: bool or additive, one tensor or a dict."""
    if attention.additive:
        masks = {name: _additive(mask, dtype) for name, mask in masks.items()}
    return masks.get("", masks)


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    hidden = torch.full((), torch.finfo(dtype).min, dtype=dtype, device=mask.device)
    return torch.where(mask, torch.zeros_like(hidden), hidden)
