"""How sure a figure is: 95 % intervals by drawing the prompts again and again, with replacement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from draftune.bench.record import Interval

LEVEL = 0.95
Pace = tuple[int, float]  # tokens and seconds of one prompt


def mean(values: Sequence[float], *, num_resamples: int = 2000, seed: int = 0) -> Interval:
    """The mean of `values` (at least one)."""
    values_N = np.asarray(values, dtype=np.float64)
    return _interval(values_N.mean(), values_N[_draws(len(values_N), num_resamples, seed)].mean(axis=1), len(values_N))


def speedup(
    drafted: Sequence[Pace], plain: Sequence[Pace], *, num_resamples: int = 2000, seed: int = 0
) -> Interval | None:
    """The ratio of tokens per second, drafted over plain; None where a side has no token or no time.

    Both hold one pace a prompt, in the same order: a prompt is drawn with both, so that what makes it slow for both
    does not blur the ratio. Where the texts are equal this is the ratio of the times.
    """
    paces_N4 = np.asarray([(*one, *other) for one, other in zip(drafted, plain, strict=True)], dtype=np.float64)
    if not (paces_N4.sum(axis=0) > 0).all():
        return None
    sums_R4 = paces_N4[_draws(len(paces_N4), num_resamples, seed)].sum(axis=1)
    sums_R4 = sums_R4[(sums_R4 > 0).all(axis=1)]  # a draw without any decoded token says nothing
    return _interval(_ratio(paces_N4.sum(axis=0)), _ratio(sums_R4), len(paces_N4))


def _ratio(sums_4: np.ndarray) -> np.ndarray:
    num_tokens, seconds, plain_num_tokens, plain_seconds = np.moveaxis(sums_4, -1, 0)
    return num_tokens * plain_seconds / (seconds * plain_num_tokens)


def _draws(num: int, num_resamples: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, num, size=(num_resamples, num))


def _interval(value: float | np.ndarray, resampled_R: np.ndarray, count: int) -> Interval:
    low, high = np.quantile(resampled_R, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value=float(value), low=float(low), high=float(high), count=count)
