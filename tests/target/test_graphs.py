"""The runner with static shapes says what the model says; with graphs off here, with graphs on where there is a GPU."""

from __future__ import annotations

import warnings

import pytest
import torch

from draftune.decode.loop import DecodeConfig, Decoder
from draftune.decode.plain import PlainDecoder
from draftune.drafters.base import Greedy
from draftune.drafters.compose import ComposedDrafter, State
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.target import graphs
from draftune.target.graphs import GraphRunner
from draftune.target.tiny import FAMILIES, tiny
from draftune.types import Request
from tests.target import ragged


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "BUCKET", 8)
    monkeypatch.setattr(graphs, "WIDEST", 8)


@pytest.mark.parametrize("family", FAMILIES)
def test_ragged_blocks_equal_the_plain_forward(family: str) -> None:
    target, tokens_BT = tiny(family), ragged.tokens()
    walked = ragged.walk(target.runner("graphs"), tokens_BT)
    tolerance = 1e-5 if family == "gemma2" else 1e-10
    assert ragged.difference(walked, ragged.plain_logits(target, tokens_BT), 1) < tolerance


def test_a_second_request_finds_the_buffers_of_the_first_and_nothing_else_of_it() -> None:
    target = tiny("llama")
    runner = target.runner("graphs")
    assert isinstance(runner, GraphRunner)
    for seed in range(3):
        tokens_BT = ragged.tokens(seed)
        walked = ragged.walk(runner, tokens_BT)
        assert ragged.difference(walked, ragged.plain_logits(target, tokens_BT), 1) < 1e-10
        if seed == 0:
            cache, made = runner._cache, dict(runner._graphs)
    assert runner._cache is cache
    assert runner._graphs == made
    assert len(made) == 2  # views of 24 and 32 slots, both 6 tokens wide


def test_other_taps_or_a_longer_request_get_buffers_of_their_own() -> None:
    target, tokens_BT = tiny("llama"), ragged.tokens()
    runner = target.runner("graphs")
    runner.open(3, 16, ())
    assert runner._cache.capacity == 24
    walked = ragged.walk(runner, tokens_BT, taps=(0,))
    assert ragged.difference(walked, ragged.plain_logits(target, tokens_BT), 1) < 1e-10


def test_results_outlive_the_next_forward() -> None:
    target = tiny("llama")
    runner = target.runner("graphs")
    runner.open(1, 16)
    runner.prefill([[4, 5]])
    first = runner.forward(torch.tensor([[6, 7]]))
    kept = first.features.hidden.clone()
    runner.forward(torch.tensor([[8, 9]]))
    assert torch.equal(first.features.hidden, kept)


def requests() -> list[Request]:
    prompts = [(4, 9, 11), (5,), tuple(range(3, 40))]
    return [Request(id=str(row), prompt=prompt, max_new_tokens=20) for row, prompt in enumerate(prompts)]


@pytest.mark.parametrize("name", ["semiar-gru", "medusa", "lookup"])
def test_drafted_text_is_that_of_the_general_runner(name: str) -> None:
    target = tiny("llama")
    drafter = DRAFTERS.load(name)().build(target.parts(), Vocabulary.full(64))
    plain = PlainDecoder(target.runner("general")).generate(requests())
    drafted = Decoder(target.runner("graphs"), drafter, DecodeConfig(num_drafts=3)).generate(requests())
    assert [one.tokens for one in drafted] == [one.tokens for one in plain]


@pytest.mark.parametrize("name", ["semiar-gru", "semiar-fixed", "semiar-state", "medusa", "hydra", "redrafter"])
@torch.inference_mode()
def test_replayed_drafts_are_the_drafts(name: str) -> None:
    """With graphs off; every round finds the buffers of the one before and nothing else of it."""
    torch.manual_seed(0)
    drafter = DRAFTERS.load(name)().build(tiny("llama").parts(), Vocabulary(torch.arange(0, 64, 2), 64))
    assert isinstance(drafter, ComposedDrafter)
    for parameter in drafter.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    replayed, met = drafter.replayed(), []
    for num_rows, num_drafts in [(2, 3), (2, 3), (1, 2), (2, 3)]:
        hidden_BD, anchor_B = torch.randn(num_rows, 32).double(), torch.randint(64, (num_rows,))
        state, budget_B = State(hidden=hidden_BD, anchor=anchor_B), torch.full((num_rows,), num_drafts)
        wanted, draft = (one.propose(state, budget_B, Greedy()) for one in (drafter, replayed))
        assert torch.equal(draft.tokens, wanted.tokens)
        met.append(draft.tokens)
    assert not torch.equal(met[0], met[1])


@pytest.mark.gpu
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_captured_graphs_say_the_same_and_a_round_waits_once(family: str) -> None:
    target = tiny(family)
    target.model.to("cuda")
    runner = target.runner()
    assert isinstance(runner, GraphRunner)
    tokens_BT = ragged.tokens()
    walked = ragged.walk(runner, tokens_BT.cuda())
    assert ragged.difference(walked, ragged.plain_logits(target, tokens_BT.cuda()), 1) < 1e-8
    drafter = DRAFTERS.load("semiar-gru")().build(target.parts(), Vocabulary.full(64))
    session = Decoder(runner, drafter, DecodeConfig(num_drafts=3)).start(requests())
    session.step()  # captures
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            session.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert sum("synchroniz" in str(one.message) for one in met) == 1
