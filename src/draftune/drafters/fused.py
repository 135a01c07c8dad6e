"""Recurrent drafters with an MLP head, one kernel call a draft token: the fastest form on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from draftune import kernels
from draftune.drafters.head import MlpHead
from draftune.drafters.recent import EPSILON, Recurrent, normalize
from draftune.types import Draft

if TYPE_CHECKING:
    from draftune.drafters.base import Sampler
    from draftune.drafters.compose import ComposedDrafter, State


class FusedStep:
    """The whole of `ComposedDrafter.propose` for a context that all offsets share, a recurrent cell and an MLP head."""

    def __init__(self, drafter: ComposedDrafter, embedding_VD: Tensor) -> None:
        recent, head = drafter.recent, drafter.head
        assert isinstance(recent, Recurrent)
        assert isinstance(head, MlpHead)
        layer, width = recent.layer, head.down.out_features
        self._context, self._ids = drafter.context, drafter.vocabulary.columns_or_none
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

    def propose(self, state: State, budget_B: Tensor, sampler: Sampler) -> Draft:
        """As the drafter's own."""
        context_BD = self._context(state.hidden.float())[:, 0].contiguous()
        part_BI = self._of_context(normalize(context_BD))
        memory, token_B = self._net.start(len(context_BD)), state.anchor.contiguous()
        drafted, probs = state.anchor[:, None][:, :0], []
        for _ in range(int(budget_B.max())):
            logits_BV = self._net.step(memory, token_B, context_BD, part_BI)
            token_B, q_BV = sampler(logits_BV, drafted, self._ids)
            drafted = torch.cat([drafted, token_B[:, None]], dim=1)
            probs.append(q_BV)
        q_BKV = torch.stack(probs, dim=1) if probs and probs[0] is not None else None
        return Draft(tokens=drafted, num_drafted=budget_B, probs=q_BKV, ids=self._ids)
