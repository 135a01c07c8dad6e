"""The learning rate rises, then falls to its end."""

from __future__ import annotations

import pytest

from draftune.train.schedule import factor


def test_shape() -> None:
    rates = [factor(progress / 100, warmup=0.1, final=0.2) for progress in range(101)]
    assert rates[5] == pytest.approx(0.5)
    assert rates[10] == 1.0
    assert rates[55] == pytest.approx(0.6)  # half-way down
    assert rates[100] == pytest.approx(0.2)
    assert rates[:11] == sorted(rates[:11])
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_ends() -> None:
    assert factor(0.0, warmup=0.0, final=0.1) == 1.0
    assert factor(2.0, warmup=0.05, final=0.0) == pytest.approx(0.0)
    assert factor(0.5, warmup=1.0, final=0.1) == 0.5
