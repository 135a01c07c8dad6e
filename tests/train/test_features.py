"""Features that are kept are those that a fresh forward gives, whoever asks and in whatever batch."""

from __future__ import annotations

import pytest
import torch

from draftune.drafters.table import DRAFTERS
from draftune.target.base import FINAL
from draftune.target.target import Target
from draftune.target.tiny import tiny
from draftune.train import features, material, plan
from draftune.train.features import FeatureCache, FeatureView
from draftune.train.material import Material
from draftune.train.objective import CrossEntropy
from draftune.types import Example, Features
from tests.train import echo

TAPS = (FINAL, 1)


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny("llama")


@pytest.fixture(scope="module")
def found(target: Target) -> Material:
    return material.prepare(target, echo.task(), echo.config())


def cache_of(target: Target, found: Material, *, whole: bool = False, limit_bytes: int = 10**9) -> FeatureCache:
    lengths = [len(example.tokens) for example in found.drafter]
    groups = plan.batches(lengths, range(len(lengths)), 8, 8192, "features")
    return FeatureCache(target, found.drafter, TAPS, groups, whole=whole, limit_bytes=limit_bytes)


def alone(target: Target, example: Example, taps: tuple[int, ...]) -> Features:
    tokens_BT, _, lengths_B = features.collate([example], target.device)
    with torch.no_grad():
        return target.hidden(tokens_BT, lengths_B, taps)


@pytest.mark.parametrize("whole", [False, True])
def test_kept_features_are_those_of_the_row_alone(target: Target, found: Material, whole: bool) -> None:
    batch = FeatureView(cache_of(target, found, whole=whole), TAPS).batch([3, 11, 30])
    for row, index in enumerate([3, 11, 30]):
        example = found.drafter[index]
        start = 0 if whole else example.prompt_length - 1
        length = len(example.tokens) - start
        assert int(batch.lengths[row]) == length
        assert batch.tokens[row, :length].tolist() == list(example.tokens[start:])
        assert batch.learned[row, :length].tolist() == list(example.learned[start:])
        assert not batch.learned[row, length:].any()
        direct_TLD = alone(target, example, TAPS).hidden[0, start:]
        torch.testing.assert_close(batch.features.hidden[row, :length], direct_TLD, rtol=1e-12, atol=1e-12)
    assert batch.features.ids == tuple(found.drafter[index].id for index in (3, 11, 30))


def test_a_view_has_the_taps_of_its_drafter(target: Target, found: Material) -> None:
    cache = cache_of(target, found)
    both, one = FeatureView(cache, TAPS).batch([5]), FeatureView(cache, (1,)).batch([5])
    assert one.features.taps == (1,)
    assert torch.equal(one.features.tap(1), both.features.tap(1))


def test_cutting_the_prompt_off_changes_no_loss(target: Target, found: Material) -> None:
    drafter = DRAFTERS.load("semiar-gru")().build(target.parts(), found.vocabulary).float()
    losses = []
    for whole in (False, True):
        batch = FeatureView(cache_of(target, found, whole=whole), (FINAL,)).batch([0, 1, 2, 3])
        losses.append(float(drafter.loss(batch, CrossEntropy(5, 0.8)).detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_a_group_is_computed_once_if_it_fits_and_each_time_if_not(target: Target, found: Material) -> None:
    whole_bytes = cache_of(target, found).size_bytes()
    cache = cache_of(target, found, limit_bytes=whole_bytes // 2)
    assert 0 < sum(cache.kept) < len(cache.kept)
    assert cache.size_bytes() <= whole_bytes // 2
    assert cache.size_bytes() + cache.size_bytes(kept=False) == whole_bytes
    rows = [group[0] for group in cache.groups]
    first = FeatureView(cache, TAPS).batch(rows)
    before = dict(cache.seconds)
    again = FeatureView(cache, TAPS).batch(rows)
    assert torch.equal(first.features.hidden, again.features.hidden), "to the last bit, kept or computed again"
    computed_again = [cache.seconds[index] != before[index] for index in range(len(rows))]
    assert computed_again == [not kept for kept in cache.kept]


def test_what_others_computed_is_charged_once(target: Target, found: Material) -> None:
    cache = cache_of(target, found)
    own, other = FeatureView(cache, TAPS), FeatureView(cache, TAPS)
    own.batch(cache.groups[0])
    assert own.borrowed_s == 0
    for _ in range(2):
        other.batch(cache.groups[0])
        assert other.borrowed_s == cache.seconds[0]
