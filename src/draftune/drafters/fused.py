"""Recurrent drafters with an MLP head, one kernel call a draft token: the fastest form on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

from draftune import kernels
from draftune.drafters.head import MlpHead
from draftune.drafters.recent import EPSILON, Recurrent, normalize

if TYPE_CHECKING:
    from draftune.drafters.compose import ComposedDrafter


class FusedStep:
    """The steps of a drafter whose offsets share one context, with a recurrent cell and an MLP head."""

    def __init__(self, drafter: ComposedDrafter, embedding_VD: Tensor) -> None:
        recent, head = drafter.recent, drafter.head
        assert isinstance(recent, Recurrent)
        assert isinstance(head, MlpHead)
        layer, width = recent.layer, head.down.out_features
        self._context = drafter.context
        self._of_context = kernels.Matrix(head.up.weight[:, :width], head.up.bias)
        self._net = kernels.RecurrentMlp(
            recent.cell,
            embedding_VD,
            EPSILON,
            from_x=(layer.weight_ih_l0, layer.bias_ih_l0),  # type: ignore[arg-type]
            from_h=(layer.weight_hh_l0, layer.bias_hh_l0),  # type: ignore[arg-type]
            of_summary=head.up.weight[:, width:],
            down=(head.down.weight, head.down.bias),
            out=(head.out.weight, head.out.bias),
        )

    @staticmethod
    def fits(drafter: ComposedDrafter, embedding_VD: Tensor) -> bool:
        """Whether the drafter is made of such parts, in sizes that the kernel reads."""
        recent, head = drafter.recent, drafter.head
        if not isinstance(recent, Recurrent) or not isinstance(head, MlpHead) or drafter.max_drafts is not None:
            return False
        sizes = (recent.width, head.up.out_features, embedding_VD.shape[1])
        return embedding_VD.dtype in kernels.DTYPES and not any(size % kernels.LANES for size in sizes)

    def start(self, hidden_BD: Tensor) -> Callable[[int, Tensor], Tensor]:
        """One round: a function from offset and newest token [B] to logits [B,V'], to be called offset by offset."""
        context_BD, part_BI = self._once(hidden_BD)
        memory = self._net.start(len(context_BD))
        return lambda _, token_B: self._net.step(memory, token_B.contiguous(), context_BD, part_BI)

    def draft(self, hidden_BD: Tensor, anchor_B: Tensor, num_drafts: int, ids_V: Tensor | None) -> Tensor:
        """The most likely tokens [B,K] of a whole round."""
        return self._net.draft(anchor_B.contiguous(), *self._once(hidden_BD), num_drafts, ids_V)

    def _once(self, hidden_BD: Tensor) -> tuple[Tensor, Tensor]:
        context_BD = self._context(hidden_BD.float())[:, 0].contiguous()
        return context_BD, self._of_context(normalize(context_BD))
