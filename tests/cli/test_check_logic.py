"""A difference of drafted and plain decoding is found, and a rounding is told from a fault."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from draftune.bench import check as checks
from draftune.drafters.base import Drafter
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.target.base import Step
from draftune.target.runner import HuggingFaceRunner
from draftune.target.target import Target
from draftune.target.tiny import tiny
from draftune.types import Completion, Request

K = 3
REQUESTS = [Request(id=f"row {n}", prompt=tuple(range(4, 9 + n)), max_new_tokens=24) for n in range(4)]


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny("llama")


@pytest.fixture(scope="module")
def drafter(target: Target) -> Drafter:
    parts = target.parts()
    return DRAFTERS.load("lookup")().build(parts, Vocabulary.full(parts.shape.vocab_size))


class Coarse(HuggingFaceRunner):
    """Rounds the logits of every block to whole steps, as a low precision would."""

    def forward(self, tokens_BM: Tensor, *tree: Tensor) -> Step:
        step = super().forward(tokens_BM, *tree)
        if tokens_BM.shape[1] == 1:
            return step
        return dataclasses.replace(step, logits=(step.logits / 2).round() * 2)


class Forgetful(HuggingFaceRunner):
    """Counts one rejected draft as if it had been accepted: the fault that a cache must not have."""

    def open(self, *arguments, **settings) -> None:
        super().open(*arguments, **settings)
        self.slips = 1

    def commit(self, num_tokens_B: Tensor, nodes_BN: Tensor | None = None) -> None:
        slip = self.slips if 0 < int(num_tokens_B[0]) < self._last else 0
        self.slips -= slip
        super().commit(num_tokens_B + slip, nodes_BN)


def test_sound_decoding_is_identical(target: Target, drafter: Drafter) -> None:
    checked = checks.check(target.runner(), drafter, REQUESTS, num_drafts=K)
    assert checked.identical
    assert not checked.faults
    assert checked.num_tokens > 24
    assert checked.num_accepted > 0


def test_a_rounding_is_a_near_tie(target: Target, drafter: Drafter) -> None:
    checked = checks.check(Coarse(target), drafter, REQUESTS, num_drafts=K)
    assert checked.differences
    for one in checked.differences:
        assert one.near_tie
        assert 0 <= one.margin <= 2 * one.spread <= 2 + 1e-9
        assert one.block[1] >= one.block[0], "the block prefers what was drafted"
        assert one.one_row[0] >= one.one_row[1]
    assert not checked.faults


def test_a_fault_is_a_fault(target: Target, drafter: Drafter) -> None:
    checked = checks.check(Forgetful(target), drafter, REQUESTS, num_drafts=K)
    assert checked.faults
    assert all(one.spread < 1e-9 < one.margin for one in checked.faults)


def test_the_first_difference_is_explained(target: Target) -> None:
    """One token is exchanged by hand: index, tokens and logits are those of that place."""
    request, runner = REQUESTS[0], target.runner()
    plain = Completion(id=request.id, tokens=(9, 8, 7, 6), text="", finish_reason="length")
    drafted = dataclasses.replace(plain, tokens=(9, 8, 5, 6))
    found = checks.explain(runner, request, plain, drafted, num_rows=K + 1)
    assert found is not None
    assert (found.index, found.plain_token, found.drafted_token) == (2, 7, 5)
    tokens_BT = torch.tensor([[*request.prompt, 9, 8]])
    logits_V = target.model(input_ids=tokens_BT).logits[0, -1].detach()
    assert found.one_row == pytest.approx((float(logits_V[7]), float(logits_V[5])))
    assert found.block == pytest.approx(found.one_row)
    assert found.margin == pytest.approx(float(logits_V[7] - logits_V[5]))


def test_an_answer_cut_short_is_a_fault(target: Target) -> None:
    plain = Completion(id="row", tokens=(9, 8, 7), text="", finish_reason="length")
    drafted = dataclasses.replace(plain, tokens=(9, 8))
    found = checks.explain(target.runner(), REQUESTS[0], plain, drafted, num_rows=K + 1)
    assert found is not None
    assert (found.index, found.plain_token, found.drafted_token) == (2, 7, None)
    assert not found.near_tie


@pytest.mark.parametrize("num_rows", [1, 2, 3, 4, 7])
def test_logits_do_not_depend_on_the_rows_read_at_once(target: Target, num_rows: int) -> None:
    prompt, tokens = (4, 5, 6), (9, 8, 7, 6, 5)
    logits_V = checks.last_logits(target.runner(), prompt, tokens, num_rows=num_rows)
    wanted_V = target.model(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0, -1]
    torch.testing.assert_close(logits_V, wanted_V.detach(), rtol=0, atol=1e-9)
