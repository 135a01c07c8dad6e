"""How drafts are judged: pure functions of what the target says, the draft and noise.

Both give exactly the target's law. Of a drawn draft token they only ever ask whether it stands.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from draftune.decode import sampling
from draftune.types import Draft, Verdict


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Uniform numbers for one judgement under `rejection`, all independent."""

    accept: Tensor  # [B,K] float64 in (0, 1)
    final: Tensor  # [B] float64 in (0, 1)


def match(choices_BM: Tensor, draft: Draft) -> Verdict:
    """A draft stands while it equals the target's own choice; the next choice follows.

    `choices_BM` [B,K+1]: what the target emits after the anchor and after each draft, be it by argmax or by
    argmax(log p + g). Drafts a b d and choices a b c x give 2 accepted and c next.
    Law: what is emitted is always the target's choice, so the text is plain decoding's whatever was drafted.
    """
    num_columns = draft.tokens.shape[1]
    stands_BK = (draft.tokens == choices_BM[:, :num_columns]) & _drafted(draft)
    num_accepted_B = stands_BK.cumprod(dim=1).sum(dim=1)
    return Verdict(num_accepted=num_accepted_B, next_token=choices_BM.gather(1, num_accepted_B[:, None])[:, 0])


def rejection(p_BMV: Tensor, draft: Draft, noise: Noise) -> Verdict:
    """Draft k stands with probability min(1, p_k/q_k); after the first that falls, (p - q)+ is drawn from.

    `p_BMV` [B,K+1,V]. Outside the draft's vocabulary q is zero. Without `draft.probs` each draft is a point mass.
    Law: min(p, q) + (1 - sum min(p, q)) * (p - q)+ / sum (p - q)+ = p.
    Source: Leviathan, Kalman and Matias 2023, algorithm 1 and appendix A.1.
    """
    num_columns = draft.tokens.shape[1]
    p_BK = p_BMV[:, :num_columns].gather(2, draft.tokens[..., None])[..., 0]
    stands_BK = (noise.accept[:, :num_columns] * _drawn_from(draft) < p_BK) & _drafted(draft)
    num_accepted_B = stands_BK.cumprod(dim=1).sum(dim=1)
    p_BV = p_BMV[torch.arange(len(p_BMV)), num_accepted_B]
    weights_BV = residual(p_BV, _refused(draft, num_accepted_B, p_BV))
    return Verdict(num_accepted=num_accepted_B, next_token=sampling.draw(weights_BV, noise.final))


def residual(p_BV: Tensor, q_BV: Tensor) -> Tensor:
    """(p - q)+, or p itself where that is zero everywhere (rounding can leave nothing)."""
    rest_BV = (p_BV - q_BV).clamp(min=0)
    return torch.where(rest_BV.sum(dim=-1, keepdim=True) > 0, rest_BV, p_BV)


def _drafted(draft: Draft) -> Tensor:
    """[B,K] True where a column holds a draft and not padding."""
    return torch.arange(draft.tokens.shape[1], device=draft.tokens.device) < draft.num_drafted[:, None]


def _columns(draft: Draft) -> Tensor:
    """[B,K] the drafts as columns of `probs`; padding may point anywhere inside."""
    if draft.ids is None:
        return draft.tokens
    return torch.searchsorted(draft.ids, draft.tokens.contiguous()).clamp(max=len(draft.ids) - 1)


def _drawn_from(draft: Draft) -> Tensor:
    """[B,K] q of the tokens that were drawn; 1 for point masses."""
    if draft.probs is None:
        return torch.ones_like(draft.tokens, dtype=torch.float64)
    return draft.probs.gather(2, _columns(draft)[..., None])[..., 0]


def _refused(draft: Draft, num_accepted_B: Tensor, p_BV: Tensor) -> Tensor:
    """[B,V] q of the first draft that fell, over the full vocabulary; zero where none fell."""
    q_BV = torch.zeros_like(p_BV)
    fell_B = num_accepted_B < draft.num_drafted
    if draft.tokens.shape[1] == 0:
        return q_BV
    rows_B = torch.arange(len(p_BV))
    column_B = num_accepted_B.clamp(max=draft.tokens.shape[1] - 1)
    if draft.probs is None:
        q_BV[rows_B, draft.tokens[rows_B, column_B]] = 1
    elif draft.ids is None:
        q_BV = draft.probs[rows_B, column_B].to(p_BV.dtype)
    else:
        q_BV[:, draft.ids] = draft.probs[rows_B, column_B].to(p_BV.dtype)
    return q_BV * fell_B[:, None]
