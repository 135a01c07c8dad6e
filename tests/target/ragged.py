"""Rows of different lengths walked through a runner block by block, beside the plain forward of the whole rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from draftune.target.base import FINAL
from draftune.target.runner import HuggingFaceRunner
from draftune.target.target import Target

PROMPTS = (1, 9, 17)  # tokens of each row's prompt; 17 is more than twice the sliding window of tiny models
TOTAL = 44
COMMITS = ([1, 3, 2], [0, 4, 1], [4, 0, 3], [2, 2, 2])  # tokens of each row that stand, block by block


@dataclass
class Walk:
    """What a runner said in each block, and the rows it was told."""

    tokens_BT: Tensor
    steps: list[tuple[list[int], Tensor, Tensor]] = field(default_factory=list)  # starts, logits, hidden of taps


def tokens(seed: int = 0, vocab_size: int = 64) -> Tensor:
    """Random rows [B,T]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocab_size, (len(PROMPTS), TOTAL), generator=generator)


def walk(runner: HuggingFaceRunner, tokens_BT: Tensor, taps: Sequence[int] = (FINAL,), right: int = 4) -> Walk:
    """Prefill, then a block of `right` true tokens and two of garbage for every entry of COMMITS."""
    walked = Walk(tokens_BT)
    runner.open(len(PROMPTS), TOTAL, taps)
    lengths = list(PROMPTS)
    step = runner.prefill([row[:n].tolist() for row, n in zip(tokens_BT, lengths, strict=True)])
    walked.steps.append(([n - 1 for n in lengths], step.logits, _last(step.features.hidden, lengths)))
    for commit in COMMITS:
        block = [torch.cat([row[n : n + right], row[:2]]) for row, n in zip(tokens_BT, lengths, strict=True)]
        step = runner.forward(torch.stack(block))
        walked.steps.append((list(lengths), step.logits[:, :right], step.features.hidden[:, :right]))
        runner.commit(torch.tensor(commit))
        lengths = [n + count for n, count in zip(lengths, commit, strict=True)]
        assert runner.lengths.tolist() == lengths
    return walked


def _last(hidden_BTLD: Tensor, lengths: list[int]) -> Tensor:
    return torch.stack([row[n - 1 : n] for row, n in zip(hidden_BTLD, lengths, strict=True)])


def difference(walked: Walk, plain_BTX: Tensor, part: int) -> float:
    """The largest difference between part 1 (logits) or 2 (hidden) of each step and the plain forward's."""
    worst = 0.0
    for step in walked.steps:
        for row, (start, said) in enumerate(zip(step[0], step[part], strict=True)):
            worst = max(worst, (said - plain_BTX[row, start : start + said.shape[0]]).abs().max().item())
    return worst


@torch.no_grad()
def plain_logits(target: Target, tokens_BT: Tensor) -> Tensor:
    """[B,T,V] of transformers' own forward, without a cache."""
    return target.model(input_ids=tokens_BT, use_cache=False).logits
