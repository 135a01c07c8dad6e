"""Every place in a batch where a round could start, for teacher-forced training and for `walk`."""

from __future__ import annotations

import torch

from draftune.drafters.base import DraftBatch, Windows
from draftune.drafters.vocabulary import Vocabulary


def windows(batch: DraftBatch, num_drafts: int, vocabulary: Vocabulary) -> Windows:
    """The windows of a batch whose anchor and first draft are both learned tokens.

    In tokens a b c d e with c d e learned and K = 2: context at b (anchor c, drafts d e) and at c (anchor d,
    draft e). Windows of one row follow one another, so their agreements can be walked like a decoding run.
    """
    learned_BT = batch.learned & (
        torch.arange(batch.tokens.shape[1], device=batch.tokens.device) < batch.lengths[:, None]
    )
    row_N, position_N = (learned_BT[:, 1:-1] & learned_BT[:, 2:]).nonzero(as_tuple=True)
    index_NK = position_N[:, None] + torch.arange(1, num_drafts + 2, device=row_N.device)
    inside_NK = index_NK < batch.tokens.shape[1]
    index_NK = index_NK.clamp(max=batch.tokens.shape[1] - 1)
    known_NK = learned_BT[row_N[:, None], index_NK] & inside_NK
    tokens_NK = batch.tokens[row_N[:, None], index_NK] * inside_NK
    counted_NK = known_NK.cumprod(dim=1).bool()[:, 1:]
    return Windows(
        row=row_N,
        position=position_N,
        tokens=tokens_NK,
        counted=counted_NK,
        labels=vocabulary.labels(tokens_NK[:, 1:]),
    )
