"""Both rules give exactly the target's law: every outcome enumerated, probabilities in exact fractions.

Vocabulary 3, two drafts. A uniform number matters only through the cell it falls in, so each cell between two
thresholds of the law is entered at both of its ends, each end carrying half of the cell's exact width.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from fractions import Fraction

import pytest
import torch

from draftune.decode import rules
from draftune.types import Draft, Verdict

VOCABULARY, DRAFTS, UNIT = 3, 2, 6
EDGE = 1e-9

Weights = tuple[int, ...]
Law = dict[tuple[int, ...], Fraction]


def distributions(rng: random.Random) -> Weights:
    first = rng.randint(0, UNIT)
    second = rng.randint(0, UNIT - first)
    weights = [first, second, UNIT - first - second]
    rng.shuffle(weights)
    return tuple(weights)


class Model:
    """A random conditional distribution for every prefix of at most DRAFTS tokens."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        prefixes = itertools.chain.from_iterable(
            itertools.product(range(VOCABULARY), repeat=n) for n in range(DRAFTS + 1)
        )
        self.rows = {prefix: distributions(rng) for prefix in prefixes}

    def probability(self, prefix: tuple[int, ...], token: int) -> Fraction:
        return Fraction(self.rows[prefix][token], UNIT)

    def law(self) -> Law:
        """Of the next DRAFTS + 1 tokens."""
        law: Law = {}
        for text in itertools.product(range(VOCABULARY), repeat=DRAFTS + 1):
            chance = Fraction(1)
            for place, token in enumerate(text):
                chance *= self.probability(text[:place], token)
            if chance:
                law[text] = chance
        return law


def complete(law: Law, emitted: tuple[int, ...], chance: Fraction, target: Model) -> None:
    """Add what plain decoding makes of an emitted beginning."""
    if len(emitted) == DRAFTS + 1:
        law[emitted] += chance
        return
    for token in range(VOCABULARY):
        step = target.probability(emitted, token)
        if step:
            complete(law, (*emitted, token), chance * step, target)


def q_row(drafter: Model, kept: tuple[int, ...], prefix: tuple[int, ...]) -> list[Fraction]:
    """q over `kept`, uniform where the drafter would leave nothing."""
    weights = [drafter.rows[prefix][token] for token in kept]
    weights = weights if any(weights) else [1] * len(kept)
    return [Fraction(weight, sum(weights)) for weight in weights]


def drafts(drafter: Model, kept: tuple[int, ...]) -> list[tuple[tuple[int, ...], Fraction]]:
    """Every draft that can be drawn, with its probability."""
    found = [((), Fraction(1))]
    for _ in range(DRAFTS):
        found = [
            ((*prefix, token), chance * share)
            for prefix, chance in found
            for token, share in zip(kept, q_row(drafter, kept, prefix), strict=True)
            if share
        ]
    return found


def ends(thresholds: set[Fraction]) -> list[tuple[float, Fraction]]:
    """(number, weight) at both ends of every cell between the thresholds that lie in 0..1."""
    marks = sorted({Fraction(0), Fraction(1)} | {mark for mark in thresholds if 0 < mark < 1})
    return [
        (number, (high - low) / 2)
        for low, high in itertools.pairwise(marks)
        for number in (float(low) + EDGE, float(high) - EDGE)
    ]


def cumulative(weights: list[Fraction]) -> set[Fraction]:
    return {part / sum(weights) for part in itertools.accumulate(weights)} if sum(weights) else set()


def enumeration(target: Model, q_of: dict[int, dict[int, Fraction]], draft: tuple[int, ...]):
    """Noise covering every cell for one draft, and the exact weight of each row."""
    accept, final = [], set()
    for place in range(DRAFTS + 1):
        p = [target.probability(draft[:place], token) for token in range(VOCABULARY)]
        final |= cumulative(p)
        if place < DRAFTS:
            q = [q_of[place].get(token, Fraction(0)) for token in range(VOCABULARY)]
            accept.append(ends({p[draft[place]] / q[draft[place]]}))
            final |= cumulative([max(Fraction(0), a - b) for a, b in zip(p, q, strict=True)])
    rows = list(itertools.product(*accept, ends(final)))
    numbers = torch.tensor([[number for number, _ in row] for row in rows], dtype=torch.float64)
    weights = [row[0][1] * row[1][1] * row[2][1] for row in rows]
    return rules.Noise(accept=numbers[:, :DRAFTS], final=numbers[:, DRAFTS]), weights


def p_rows(target: Model, draft: tuple[int, ...], rows: int) -> torch.Tensor:
    table = [target.rows[draft[:place]] for place in range(DRAFTS + 1)]
    return (torch.tensor(table, dtype=torch.float64) / UNIT).expand(rows, -1, -1)


def rejection_law(target: Model, drafter: Model, kept: tuple[int, ...], drafted: int, rule=rules.rejection) -> Law:
    """The law of what `rule` emits for drawn drafts, completed by plain decoding, all its noise enumerated."""
    law: Law = defaultdict(Fraction)
    for draft, chance in drafts(drafter, kept):
        q = [q_row(drafter, kept, draft[:place]) for place in range(DRAFTS)]
        q_of = {place: dict(zip(kept, row, strict=True)) for place, row in enumerate(q)}
        noise, weights = enumeration(target, q_of, draft)
        record = Draft(
            tokens=torch.tensor([draft]).expand(len(weights), -1),
            num_drafted=torch.full((len(weights),), drafted),
            probs=torch.tensor([[float(share) for share in row] for row in q], dtype=torch.float64).expand(
                len(weights), -1, -1
            ),
            ids=None if len(kept) == VOCABULARY else torch.tensor(kept),
        )
        verdict = rule(p_rows(target, draft, len(weights)), record, noise)
        spread(law, verdict, draft, [chance * weight for weight in weights], target)
    return dict(law)


def spread(law: Law, verdict: Verdict, draft: tuple[int, ...], chances: list[Fraction], target: Model) -> None:
    outcomes: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for outcome, chance in zip(
        zip(verdict.num_accepted.tolist(), verdict.next_token.tolist(), strict=True), chances, strict=True
    ):
        outcomes[outcome] += chance
    for (accepted, token), chance in outcomes.items():
        complete(law, (*draft[:accepted], token), chance, target)


@pytest.mark.parametrize("drafted", [0, 1, 2])
@pytest.mark.parametrize("kept", [(0, 1, 2), (0, 2), (1,)])
@pytest.mark.parametrize("seed", range(3))
def test_rejection_has_the_law_of_the_target_for_sampled_drafts(seed: int, kept: tuple[int, ...], drafted: int) -> None:
    target, drafter = Model(seed), Model(100 + seed)
    assert rejection_law(target, drafter, kept, drafted) == target.law()


@pytest.mark.parametrize("seed", range(4))
def test_rejection_has_the_law_of_the_target_for_point_masses(seed: int) -> None:
    target = Model(seed)
    for draft in itertools.product(range(VOCABULARY), repeat=DRAFTS):
        noise, weights = enumeration(target, {place: {draft[place]: Fraction(1)} for place in range(DRAFTS)}, draft)
        tokens = torch.tensor([draft]).expand(len(weights), -1)
        record = Draft(tokens=tokens, num_drafted=torch.full((len(weights),), DRAFTS))
        law: Law = defaultdict(Fraction)
        spread(law, rules.rejection(p_rows(target, draft, len(weights)), record, noise), draft, weights, target)
        assert dict(law) == target.law()


@pytest.mark.parametrize("seed", range(4))
def test_match_has_the_law_of_the_target_for_sampled_drafts(seed: int) -> None:
    """The target's choices come with probability p, drafts with q: independent, then completed by plain decoding."""
    target, drafter = Model(seed), Model(100 + seed)
    law: Law = defaultdict(Fraction)
    for draft, chance in drafts(drafter, (0, 1, 2)):
        for choices in itertools.product(range(VOCABULARY), repeat=DRAFTS + 1):
            weight = chance
            for place, token in enumerate(choices):
                weight *= target.probability(draft[:place], token)
            record = Draft(tokens=torch.tensor([draft]), num_drafted=torch.tensor([DRAFTS]))
            spread(law, rules.match(torch.tensor([choices]), record), draft, [weight], target)
    assert {text: chance for text, chance in law.items() if chance} == target.law()


def test_match_follows_the_targets_choices_whatever_is_drafted() -> None:
    """Path by path, so a draft may depend on the very noise that made the choices."""
    for text in itertools.product(range(VOCABULARY), repeat=DRAFTS + 1):
        for draft in itertools.product(range(VOCABULARY), repeat=DRAFTS):
            choices = [text[place] if draft[:place] == text[:place] else 0 for place in range(DRAFTS + 1)]
            record = Draft(tokens=torch.tensor([draft]), num_drafted=torch.tensor([DRAFTS]))
            verdict = rules.match(torch.tensor([choices]), record)
            accepted = int(verdict.num_accepted)
            assert (*draft[:accepted], int(verdict.next_token)) == text[: accepted + 1]
            assert accepted == DRAFTS or draft[accepted] != text[accepted]


def _drops_a_drawn_token(p: torch.Tensor, draft: Draft, noise: rules.Noise) -> Verdict:
    """A biased rule: token 2 is never offered, though it was drawn (the design's warning)."""
    keep = (draft.tokens != 2).cumprod(dim=1).sum(dim=1)
    return rules.rejection(p, Draft(tokens=draft.tokens, num_drafted=keep, probs=draft.probs, ids=draft.ids), noise)


def _forgets_the_residual(p: torch.Tensor, draft: Draft, noise: rules.Noise) -> Verdict:
    """A biased rule: after a refusal it draws from p instead of (p - q)+."""
    verdict = rules.rejection(p, draft, noise)
    row = p[torch.arange(len(p)), verdict.num_accepted]
    return Verdict(num_accepted=verdict.num_accepted, next_token=rules.sampling.draw(row, noise.final))


@pytest.mark.parametrize("biased", [_drops_a_drawn_token, _forgets_the_residual])
def test_the_enumeration_catches_a_biased_rule(biased) -> None:
    target, drafter = Model(1), Model(101)
    assert rejection_law(target, drafter, (0, 1, 2), DRAFTS, biased) != target.law()
