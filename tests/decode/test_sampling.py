"""Logits become probabilities in one place and in fp32."""

from __future__ import annotations

import torch

from draftune.decode import sampling


def test_probabilities_are_made_in_fp32_from_half_precision() -> None:
    logits = torch.randn(2, 3, 50, generator=torch.Generator().manual_seed(0)).bfloat16()
    probs = sampling.probabilities(logits, torch.tensor([1.0, 0.5]))
    assert probs.dtype == torch.float32
    assert torch.allclose(probs.sum(-1), torch.ones(2, 3), atol=1e-6)
    assert torch.allclose(probs[1], torch.softmax(logits[1].float() * 2, dim=-1), atol=1e-6)


def test_temperature_zero_is_all_on_the_largest_logit_row_by_row() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0], [0.0, 3.0, 1.0]])
    probs = sampling.probabilities(logits, torch.tensor([0.0, 1.0]))
    assert probs[0].tolist() == [0.0, 1.0, 0.0]
    assert torch.allclose(probs[1], torch.softmax(logits[1], dim=-1))


def test_draw_inverts_the_cumulative_weights_and_never_picks_a_zero() -> None:
    weights = torch.tensor([[0.0, 2.0, 0.0, 1.0, 0.0]])
    drawn = [int(sampling.draw(weights, torch.tensor([u]))) for u in (1e-12, 0.3, 0.66, 0.67, 1 - 1e-16)]
    assert drawn == [1, 1, 1, 3, 3]
