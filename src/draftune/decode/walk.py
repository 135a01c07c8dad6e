"""Greedy acceptance without decoding: one teacher-forced pass tells how many drafts match at every position."""

from __future__ import annotations

from torch import Tensor

from draftune.decode.tally import Tally
from draftune.types import FinishReason, Round


def walk(agreement_TK: Tensor, num_drafts: int, finish_reason: FinishReason = "stop") -> Tally:
    """The tally that greedy decoding of this very text would have, tested equal to it.

    The text is y_0..y_T with y_0 from the prefill. Row t of `agreement_TK` [T,K] bool tells which of the drafts
    after anchor y_t are y_{t+1}, y_{t+2}, ..; drafts beyond the text never agree. A round at y_t whose first a
    drafts match goes on at y_{t+a+1}. With matches a = 2, 0, 0, 1 over 5 tokens the rounds start at y_0 and y_3.
    """
    matches_T = agreement_TK[:, :num_drafts].cumprod(dim=1).sum(dim=1).tolist()
    num_tokens, at, rounds = len(matches_T) + 1, 0, []
    while at < num_tokens - 1:
        left = num_tokens - 1 - at  # tokens of the text not yet emitted
        budget = min(num_drafts, left - 1) if finish_reason == "length" else num_drafts
        accepted = min(matches_T[at], budget, left)
        emitted = min(accepted + 1, left)
        drafted = accepted if accepted == left else budget  # a stop inside the block ends the counting
        rounds.append(Round(num_drafted=drafted, num_accepted=accepted, num_emitted=emitted))
        at += emitted
    return Tally.of_rounds(rounds)
