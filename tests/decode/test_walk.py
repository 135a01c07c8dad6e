"""The walk over one teacher-forced pass counts what real greedy decoding counts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from draftune.decode.loop import DecodeConfig, Decoder
from draftune.decode.tally import Tally
from draftune.decode.walk import walk
from draftune.drafters.base import DraftBatch, Drafter, Windows
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.target.tiny import tiny
from draftune.types import Request
from tests.decode.reference import plain

NUM_DRAFTS = 4


class Agreement:
    """Collects which drafts are the text's own."""

    num_drafts = NUM_DRAFTS

    def __init__(self) -> None:
        self.columns: list[Tensor] = []

    def __call__(self, offset: int, logits_NV: Tensor, windows: Windows) -> Tensor:
        right = logits_NV.argmax(-1) == windows.labels[:, offset - 1]
        self.columns.append(right & windows.counted[:, offset - 1])
        return logits_NV.new_zeros(())

    def metrics(self) -> dict[str, tuple[float, float]]:
        return {}


def overfit(drafter: Drafter, batch: DraftBatch) -> None:
    """A few steps towards the text, so that some drafts are right."""

    class CrossEntropy(Agreement):
        def __call__(self, offset: int, logits_NV: Tensor, windows: Windows) -> Tensor:
            known = windows.counted[:, offset - 1]
            return torch.nn.functional.cross_entropy(logits_NV[known], windows.labels[known, offset - 1])

    optimizer = torch.optim.Adam(drafter.parameters(), lr=3e-3)
    for _ in range(12):
        optimizer.zero_grad()
        drafter.loss(batch, CrossEntropy()).backward()
        optimizer.step()


@pytest.mark.parametrize("finish", ["length", "stop"])
@pytest.mark.parametrize("name", [name for name in DRAFTERS.entries() if name != "lookup"])
def test_walk_equals_decoding(name: str, finish: str) -> None:
    torch.manual_seed(1)
    target = tiny()
    free = Request(id="a", prompt=(5, 6, 7), max_new_tokens=40)
    text = plain(target, free)
    if finish == "stop":
        text = text[: text.index(text[25]) + 1]
    request = Request(**{**vars(free), "stop_tokens": frozenset(text[-1:] if finish == "stop" else [])})
    tokens = torch.tensor([[*request.prompt, *text]])
    learned = torch.arange(tokens.shape[1])[None] >= len(request.prompt)
    lengths = torch.tensor([tokens.shape[1]])
    drafter = DRAFTERS.load(name)().build(target.parts(), Vocabulary.full(64))
    with torch.no_grad():
        features = target.hidden(tokens, lengths, drafter.taps)
    batch = DraftBatch(tokens=tokens, learned=learned, lengths=lengths, features=features)
    overfit(drafter, batch)
    agreement = Agreement()
    drafter.loss(batch, agreement)
    walked = walk(torch.stack(agreement.columns, dim=1), NUM_DRAFTS, finish)  # type: ignore[arg-type]
    decoded = Decoder(target.runner(), drafter, DecodeConfig(num_drafts=NUM_DRAFTS)).generate([request])
    assert list(decoded[0].tokens) == text
    assert walked == Tally.of(decoded)
    assert walked.num_accepted > 0
