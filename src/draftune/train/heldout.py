"""Held-out rows: how likely the target finds their answers, and how far its own answers are guessed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from draftune.decode.plain import PlainDecoder
from draftune.decode.tally import Tally
from draftune.drafters.base import DraftBatch, Drafter
from draftune.target.target import Target
from draftune.train import features
from draftune.train.objective import Agreement
from draftune.types import Example, FinishReason, Request

ROWS = 8  # of one forward


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A held-out prompt with what the target itself said greedily, marked as learned."""

    example: Example
    finish_reason: FinishReason


def lm_loss(target: Target, hidden_BTD: Tensor, tokens_BT: Tensor, learned_BT: Tensor) -> tuple[Tensor, int]:
    """The summed -log p of the learned tokens in fp32 or wider, and their number.

    In tokens a b c d with c d learned, h_b is asked for c and h_c for d. Logits are made at those places alone.
    """
    wanted_BT = learned_BT[:, 1:]
    logits_NV = target.logits(hidden_BTD[:, :-1][wanted_BT])
    logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32))
    labels_N = tokens_BT[:, 1:][wanted_BT]
    return F.cross_entropy(logits_NV, labels_N, reduction="sum"), labels_N.numel()


@torch.no_grad()
def nll(target: Target, examples: Sequence[Example]) -> tuple[float, int]:
    """(sum, count) of -log p over the learned tokens of held-out rows, in the target's own precision."""
    target.model.eval()
    total, count = 0.0, 0
    for chunk in _chunks(examples):
        tokens_BT, learned_BT, lengths_B = features.collate(chunk, target.device)
        hidden_BTD = target.hidden(tokens_BT, lengths_B).hidden[:, :, 0]
        loss, num_tokens = lm_loss(target, hidden_BTD, tokens_BT, learned_BT)
        total, count = total + float(loss), count + num_tokens
    return total, count


def answer(target: Target, requests: Sequence[Request]) -> list[Answer]:
    """The target's greedy answers, decoded plainly, in the order of the requests."""
    target.model.eval()
    completions = PlainDecoder(target.runner()).generate(requests)
    answers = []
    for request, completion in zip(requests, completions, strict=True):
        tokens = (*request.prompt, *completion.tokens)
        learned = (False,) * len(request.prompt) + (True,) * len(completion.tokens)
        example = Example(id=request.id, tokens=tokens, learned=learned)
        answers.append(Answer(example=example, finish_reason=completion.finish_reason))
    return answers


def listen(target: Target, answers: Sequence[Answer], taps: Sequence[int], *, whole: bool) -> list[DraftBatch]:
    """Batches of answers with the target's features, for `acceptance`; `whole` keeps those of the prompts."""
    made = []
    for chunk in _chunks(answers):
        examples = [one.example for one in chunk]
        hidden = features.compute(target, examples, taps, whole=whole)
        made.append(features.assemble(examples, hidden, taps, whole=whole))
    return made


@torch.no_grad()
def acceptance(drafter: Drafter, batches: Sequence[DraftBatch], answers: Sequence[Answer], num_drafts: int) -> Tally:
    """The tally that greedy decoding of these answers would have with this drafter."""
    drafter.eval()
    tally = Tally()
    for batch, chunk in zip(batches, _chunks(answers), strict=True):
        agreement = Agreement(num_drafts)
        drafter.loss(batch, agreement)
        tally += agreement.tally([one.finish_reason for one in chunk])
    return tally


def figures(tally: Tally) -> dict[str, float]:
    """tau and alpha_k of a tally by name; what never occurred is left out."""
    named = {"tau": tally.tau} | {f"alpha_{k}": value for k, value in enumerate(tally.alpha, start=1)}
    return {name: value for name, value in named.items() if value == value}


def _chunks(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[start : start + ROWS] for start in range(0, len(items), ROWS)]
