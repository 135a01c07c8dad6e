"""Acceptance counted: tau, alpha_k and the histogram of accepted drafts, as (sum, count) until asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from draftune.types import Completion, Round


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Counts over rounds. The prefill's token and tokens after a stop are counted nowhere."""

    num_rounds: int = 0
    num_drafted: int = 0
    num_accepted: int = 0
    num_emitted: int = 0
    reached: tuple[int, ...] = ()  # [K] rounds whose drafts 1..k-1 stood and that had a draft k
    stood: tuple[int, ...] = ()  # [K] those whose draft k stood too
    histogram: tuple[int, ...] = ()  # [K+1] rounds by number of accepted drafts

    @classmethod
    def of(cls, completions: Iterable[Completion]) -> Tally:
        """The tally of finished requests."""
        return cls.of_rounds([round_ for completion in completions for round_ in completion.rounds])

    @classmethod
    def of_rounds(cls, rounds: Iterable[Round]) -> Tally:
        """The tally of single rounds."""
        rounds = list(rounds)
        widest = max((r.num_drafted for r in rounds), default=0)
        offsets = range(1, widest + 1)
        return cls(
            num_rounds=len(rounds),
            num_drafted=sum(r.num_drafted for r in rounds),
            num_accepted=sum(r.num_accepted for r in rounds),
            num_emitted=sum(r.num_emitted for r in rounds),
            reached=tuple(sum(r.num_drafted >= k and r.num_accepted >= k - 1 for r in rounds) for k in offsets),
            stood=tuple(sum(r.num_accepted >= k for r in rounds) for k in offsets),
            histogram=tuple(sum(r.num_accepted == n for r in rounds) for n in range(widest + 1)),
        )

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            num_rounds=self.num_rounds + other.num_rounds,
            num_drafted=self.num_drafted + other.num_drafted,
            num_accepted=self.num_accepted + other.num_accepted,
            num_emitted=self.num_emitted + other.num_emitted,
            reached=_add(self.reached, other.reached),
            stood=_add(self.stood, other.stood),
            histogram=_add(self.histogram, other.histogram),
        )

    @property
    def tau(self) -> float:
        """Acceptance length: tokens emitted a round (1 = no gain); nan without rounds."""
        return _ratio(self.num_emitted, self.num_rounds)

    @property
    def acceptance_rate(self) -> float:
        """Accepted / drafted. Only comparable at equal K."""
        return _ratio(self.num_accepted, self.num_drafted)

    @property
    def alpha(self) -> tuple[float, ...]:
        """alpha_k for k = 1..K: how often draft k stood where drafts 1..k-1 did."""
        return tuple(_ratio(stood, reached) for stood, reached in zip(self.stood, self.reached, strict=True))


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _add(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    width = max(len(left), len(right))
    padded = [counts + (0,) * (width - len(counts)) for counts in (left, right)]
    return tuple(a + b for a, b in zip(*padded, strict=True))
