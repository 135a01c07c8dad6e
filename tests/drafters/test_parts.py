"""Every part's step, used for drafting, is the twin of its unroll, used for training."""

from __future__ import annotations

import pytest
import torch

from draftune.drafters.recent import Attention, Concat, Fixed, Newest, Nothing, Recent, Recurrent, State
from draftune.target.base import TargetShape

SHAPE = TargetShape(vocab_size=20, hidden_size=12, num_layers=2, max_length=64)


def lively(part: Recent) -> Recent:
    """The part with random weights where it starts with zeros."""
    for weight in part.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    return part


RECENTS = {
    "nothing": lambda: Nothing(Nothing.Config(), SHAPE),
    "rnn": lambda: Recurrent(Recurrent.Config(cell="rnn", width=7), SHAPE),
    "gru": lambda: Recurrent(Recurrent.Config(cell="gru"), SHAPE),
    "lstm": lambda: Recurrent(Recurrent.Config(cell="lstm", width=9), SHAPE),
    "state": lambda: State(State.Config(), SHAPE),
    "fixed": lambda: Fixed(Fixed.Config(heads=4), SHAPE),
    "attention": lambda: Attention(Fixed.Config(heads=4), SHAPE),
    "attention, short window": lambda: Attention(Fixed.Config(heads=4, window=2), SHAPE),
    "concat": lambda: lively(Concat(Concat.Config(num_drafts=6), SHAPE)),
    "newest": lambda: Newest(Newest.Config(rank=5), SHAPE),
    "fixed, short window": lambda: Fixed(Fixed.Config(heads=4, window=2), SHAPE),
}


@pytest.mark.parametrize("name", RECENTS)
def test_step_equals_unroll(name: str) -> None:
    torch.manual_seed(0)
    part = RECENTS[name]().double()
    context, x = torch.randn(5, 12, dtype=torch.float64), torch.randn(5, 6, 12, dtype=torch.float64)
    unrolled, stepped = part.unroll(context, x), Recent.unroll(part, context, x)
    assert unrolled.shape == (5, 6, part.width)
    assert torch.allclose(unrolled, stepped, atol=1e-12)


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm", "state", "fixed", "attention", "concat"])
def test_the_summary_depends_on_every_recent_token_and_on_no_later_one(name: str) -> None:
    torch.manual_seed(0)
    part = RECENTS[name]().double()
    x = torch.randn(1, 5, 12, dtype=torch.float64, requires_grad=True)
    summary = part.unroll(torch.randn(1, 12, dtype=torch.float64), x)[0, 2].sum()
    (gradient,) = torch.autograd.grad(summary, x)
    touched = gradient[0].abs().sum(-1) > 0
    assert touched.tolist() == [True, True, True, False, False]
