"""What a round costs on this machine and what it yields: from both, how many tokens to draft.

Decode-only speed-up = tau(K) * plain step / (verify of K+1 tokens + c_0 + K c + the rest); tau(K) = 1 + sum of
alpha_1 .. alpha_k over k = 1..K. The model predicts, a benchmark confirms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds, for a batch of one size at one length of context."""

    verify_s: tuple[float, ...]  # of a forward of 1, 2, .. tokens a row
    begin_s: float  # c_0: drafting, once a round
    draft_s: float  # c: for each draft token
    plain_other_s: float  # between the forwards of plain decoding
    other_s: float  # between the phases of a round

    @property
    def most(self) -> int:
        """The largest K whose verify was timed."""
        return len(self.verify_s) - 1

    @property
    def plain_s(self) -> float:
        """A step of plain decoding."""
        return self.verify_s[0] + self.plain_other_s

    def round_s(self, num_drafts: int) -> float:
        """A round of K drafts, 1 or more."""
        return self.verify_s[num_drafts] + self.begin_s + num_drafts * self.draft_s + self.other_s


def expected_tokens(alpha: Sequence[float], num_drafts: int) -> float:
    """tau(K): tokens that a round emits on average. Offsets beyond those known accept like the last known one."""
    total, reached = 1.0, 1.0
    for offset in range(num_drafts):
        reached *= alpha[min(offset, len(alpha) - 1)] if alpha else 0.0
        total += reached
    return total


def speedup(costs: Costs, alpha: Sequence[float], num_drafts: int) -> float:
    """Times that decoding with K drafts a round is faster than plain decoding, the prefill apart."""
    return expected_tokens(alpha, num_drafts) * costs.plain_s / costs.round_s(num_drafts)


def best_num_drafts(costs: Costs, alpha: Sequence[float], most: int | None = None) -> int:
    """The K of the greatest speed-up, at most `most`; 0 where drafting does not pay."""
    most = costs.most if most is None else min(most, costs.most)
    gains = {num_drafts: speedup(costs, alpha, num_drafts) for num_drafts in range(1, most + 1)}
    found = max(gains, key=lambda num_drafts: gains[num_drafts], default=0)
    return found if found and gains[found] > 1 else 0
