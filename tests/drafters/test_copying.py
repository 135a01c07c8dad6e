"""`copying`: what it looks up, and that training shows the very logits that drafting computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from draftune import errors
from draftune.drafters.base import DraftBatch, Drafter, Prefix, Windows
from draftune.drafters.copying import Copying, CopyingConfig, Text
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.target.base import FINAL
from draftune.target.tiny import tiny
from draftune.train.objective import CrossEntropy
from draftune.types import Features

SIZE, NUM_DRAFTS = 24, 3


def slowly(tokens: list[int], longest: int) -> list[int]:
    """What last followed the last token, the last two .. : by looking at every place."""
    found = []
    for length in range(1, longest + 1):
        suffix = tokens[-length:]
        ends = [end for end in range(length, len(tokens)) if tokens[end - length : end] == suffix]
        if not ends or len(suffix) < length:
            break
        found.append(tokens[ends[-1]])
    return found


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(0, 8), st.integers(1, 4))
def test_repeats(tokens: list[int], num_drafted: int, longest: int) -> None:
    cut = max(1, len(tokens) - num_drafted)
    assert list(Text(longest, tokens[:cut]).repeats(tokens[cut:])) == slowly(tokens, longest)


def drafter(**settings: Any) -> Copying:
    target = tiny("llama", vocab_size=SIZE)
    torch.manual_seed(0)
    built = CopyingConfig(**settings).build(target.parts(), Vocabulary(torch.arange(0, SIZE, 2), SIZE))
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return built


class Recorder:
    """An objective that keeps the logits it is shown."""

    num_drafts = NUM_DRAFTS

    def __init__(self) -> None:
        self.logits: dict[int, Tensor] = {}

    def __call__(self, offset: int, logits_NV: Tensor, windows: Windows) -> Tensor:
        self.logits[offset], self.windows = logits_NV, windows
        return logits_NV.sum()

    def metrics(self) -> dict[str, tuple[float, float]]:
        return {}


class Told:
    """A sampler that draws what it is told, and keeps the logits it is shown."""

    greedy = False

    def __init__(self, tokens: list[int]) -> None:
        self.tokens, self.logits = tokens, []

    def __call__(self, logits_BV: Tensor, drafted_BK: Tensor, ids_V: Tensor | None) -> tuple[Tensor, None]:
        self.logits.append(logits_BV[0])
        return torch.tensor([self.tokens[drafted_BK.shape[1]]]), None


@pytest.mark.parametrize("inner", ["semiar-gru", "medusa", "semiar-state"])
def test_training_shows_what_drafting_computes(inner: str) -> None:
    module, row = drafter(drafter=inner, num_drafts=NUM_DRAFTS), [3, 4, 6, 4, 6, 8, 4, 6, 8, 5, 4, 6, 2]
    hidden = torch.randn(1, len(row), len(module.taps), module.inner._embedding_VD.shape[1], dtype=torch.float64)
    tokens = torch.tensor([row])
    learned = torch.arange(len(row))[None] >= 3
    features = Features(ids=("a",), hidden=hidden, taps=module.taps)
    recorder = Recorder()
    batch = DraftBatch(tokens=tokens, learned=learned, lengths=torch.tensor([len(row)]), features=features)
    module.loss(batch, recorder)
    compared = 0
    for place, t in enumerate(recorder.windows.position.tolist()):
        past = Features(ids=("a",), hidden=hidden[:, : t + 1], taps=module.taps)
        prefix = Prefix(
            tokens=tokens[:, : t + 1], lengths=torch.tensor([t + 1]), features=past, anchor=tokens[:, t + 1]
        )
        told = Told([*row[t + 2 :], 0, 0, 0])
        module.propose(module.begin(prefix), torch.tensor([NUM_DRAFTS]), told)
        for offset in range(1, NUM_DRAFTS + 1):
            if recorder.windows.counted[place, offset - 1]:
                difference = (told.logits[offset - 1] - recorder.logits[offset][place]).abs().max()
                assert float(difference.detach()) < 1e-9
                compared += 1
    assert compared > 15


def test_it_learns_to_repeat() -> None:
    """Text made of one phrase again and again, of tokens that carry no meaning."""
    module = drafter()
    for parameter in (module.seen, module.repeated_N):
        torch.nn.init.zeros_(parameter)
    optimizer = torch.optim.Adam([module.seen, module.repeated_N], lr=1e-2)
    generator = torch.Generator().manual_seed(0)
    phrase = torch.randint(0, SIZE // 2, (4, 6), generator=generator) * 2
    tokens = phrase.repeat(1, 4)
    hidden = torch.zeros(4, 24, 1, module.inner._embedding_VD.shape[1], dtype=torch.float64)  # type: ignore[union-attr, index]
    batch = DraftBatch(
        tokens=tokens,
        learned=torch.arange(24).expand(4, 24) >= 12,
        lengths=torch.full((4,), 24),
        features=Features(ids=("a",) * 4, hidden=hidden, taps=(FINAL,)),
    )
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = module.loss(batch, CrossEntropy(NUM_DRAFTS, 0.8))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 2
    assert float(module.repeated_N[1]) > 0


def test_mistakes() -> None:
    with pytest.raises(errors.ConfigError, match="longest = 0"):
        CopyingConfig(longest=0)
    with pytest.raises(errors.DraftuneError, match="semiar-gr"):
        CopyingConfig(drafter="semiar-gr").for_drafts(3)
    assert isinstance(DRAFTERS.load("copying")(), CopyingConfig)
    assert isinstance(drafter(), Drafter)
