"""How many tokens to draft in the next round: by what a round costs here, and by how drafts fared so far.

What decides is the machine and the verified past, never a token that was just drawn, so every rule stays exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from draftune.decode.cost import Costs, best_num_drafts
from draftune.types import Round

PRIOR_ROUNDS = 16.0  # how many rounds of experience the acceptance known beforehand is worth
MEMORY = 0.98  # what a round still counts after the next one: texts change their character
PROBE = 32  # rounds without drafts after which one is tried
EVERY = 4  # rounds after which the choice is made anew


class Plan:
    """Chooses K round by round. One plan may serve many requests: what it learned of one helps the next."""

    def __init__(self, costs: Costs, alpha: Sequence[float], most: int | None = None) -> None:
        """`alpha` is what is known beforehand, of training's held-out rows or of a benchmark; one number will do."""
        self.costs = costs
        self.most = costs.most if most is None else min(most, costs.most)
        self._prior = [alpha[min(offset, len(alpha) - 1)] for offset in range(self.most)]
        self._reached, self._stood = [0.0] * self.most, [0.0] * self.most
        self._age = 0
        self._chosen = best_num_drafts(costs, self._prior, self.most)

    @property
    def num_drafts(self) -> int:
        """K of the next round; 0 where a plain step is the fastest, with a single draft now and then to see."""
        return self._chosen or int(self._age % PROBE == PROBE - 1)

    @property
    def alpha(self) -> list[float]:
        """What is believed of α_k now."""
        counts = zip(self._prior, self._stood, self._reached, strict=True)
        return [(prior * PRIOR_ROUNDS + stood) / (PRIOR_ROUNDS + reached) for prior, stood, reached in counts]

    def learn(self, rounds: Sequence[Round]) -> None:
        """Take in what became of a round's drafts, row by row."""
        for offset in range(min(self.most, max((one.num_drafted for one in rounds), default=0))):
            self._reached[offset] *= MEMORY
            self._stood[offset] *= MEMORY
        for one in rounds:
            for offset in range(min(one.num_drafted, self.most)):
                if one.num_accepted >= offset:
                    self._reached[offset] += 1
                    self._stood[offset] += one.num_accepted > offset
        self._age += 1
        if self._age % EVERY == 0:
            self._chosen = best_num_drafts(self.costs, self.alpha, self.most)
