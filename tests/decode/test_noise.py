"""The noise of `match` is Gumbel, independent over its keys, and selects with probability p."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from draftune.decode import noise, sampling


def test_uniform_numbers_look_uniform_along_every_key() -> None:
    key = noise.keys([(seed, sample) for seed in range(20) for sample in range(5)])
    numbers = noise.uniform(key, noise.GUMBEL, torch.arange(40).expand(100, -1), torch.arange(50))
    assert numbers.min() > 0
    assert numbers.max() < 1
    for kept in range(3):
        mean = numbers.mean(dim=[d for d in range(3) if d != kept])
        spread = math.sqrt(1 / 12 / (numbers.numel() / len(mean)))
        assert (mean - 0.5).abs().max() < 5 * spread
    ordered = numbers.flatten().sort().values
    steps = (torch.arange(len(ordered)) + 0.5) / len(ordered)
    assert (ordered - steps).abs().max() < 2.0 / math.sqrt(len(ordered))  # Kolmogorov-Smirnov, p about 0.0007


def test_neighbouring_keys_are_uncorrelated() -> None:
    ids, index = torch.arange(2000), torch.arange(4)[None]
    rows = [
        noise.uniform(noise.keys([(seed, sample)]), purpose, index, ids).flatten()
        for seed, sample, purpose in [(0, 0, 1), (1, 0, 1), (0, 1, 1), (0, 0, 2), (-1, 0, 1)]
    ]
    for left, right in itertools.combinations(rows, 2):
        assert abs(torch.corrcoef(torch.stack([left, right]))[0, 1]) < 0.05


def test_same_key_same_number_alone_and_in_a_batch() -> None:
    both = noise.gumbel(noise.keys([(1, 0), (2, 3)]), torch.tensor([[5], [9]]), torch.arange(7))
    alone = noise.gumbel(noise.keys([(2, 3)]), torch.tensor([[9]]), torch.tensor([6, 2]))
    assert torch.equal(both[1, 0, [6, 2]], alone[0, 0])


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_keyed_choice_has_the_frequencies_of_p(temperature: float) -> None:
    logits = torch.tensor([1.0, 0.0, -1.0, 2.0], dtype=torch.float64)
    trials, heat = 40_000, torch.tensor([temperature])
    gumbel = noise.gumbel(noise.keys([(7, 0)]), torch.arange(trials)[None], torch.arange(4))
    chosen = sampling.choose(logits.expand(1, trials, 4), heat, gumbel)[0]
    expected = sampling.probabilities(logits[None], heat)[0] * trials
    observed = torch.bincount(chosen, minlength=4).double()
    chi_square = ((observed - expected) ** 2 / expected).sum()
    assert chi_square < 16.3  # 3 degrees of freedom, p = 0.001
