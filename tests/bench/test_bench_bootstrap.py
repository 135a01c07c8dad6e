"""Intervals: exact where nothing varies, paired, and right as often as they say."""

import numpy as np
import pytest

from draftune.bench import bootstrap


def test_mean_of_equal_values_is_certain():
    found = bootstrap.mean([0.25] * 7)
    assert (found.value, found.low, found.high, found.count) == (0.25, 0.25, 0.25, 7)


def test_mean_interval_covers_the_truth_about_as_often_as_it_says():
    draws = np.random.default_rng(3).random((400, 40)) < 0.3
    intervals = [bootstrap.mean(row.astype(float), num_resamples=400, seed=n) for n, row in enumerate(draws)]
    covered = np.mean([one.low <= 0.3 <= one.high for one in intervals])
    assert 0.90 <= covered <= 0.98
    assert all(one.low <= one.value <= one.high for one in intervals)


def test_speedup_is_paired_by_prompt():
    num_tokens = [5, 50, 500]
    plain = [(n, n * 0.1 * slow) for n, slow in zip(num_tokens, (1, 4, 9), strict=True)]
    drafted = [(n, seconds / 2) for n, seconds in plain]
    found = bootstrap.speedup(drafted, plain)
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((2, 2, 2))


def test_speedup_counts_tokens_per_second_where_texts_differ():
    found = bootstrap.speedup([(30, 1.0)], [(10, 1.0)])
    assert found is not None
    assert found.value == pytest.approx(3)


@pytest.mark.parametrize("drafted", [[(0, 1.0)], [(3, 0.0)]])
def test_no_speedup_without_tokens_or_time(drafted):
    assert bootstrap.speedup(drafted, [(3, 1.0)]) is None


def test_a_draw_of_prompts_without_tokens_is_left_out():
    found = bootstrap.speedup([(0, 0.1), (10, 1.0)], [(0, 0.1), (10, 2.0)])
    assert found is not None
    assert np.isfinite([found.low, found.high]).all()
