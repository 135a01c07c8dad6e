"""Drafted decoding is held against plain decoding, token id by token id, and a difference is explained.

In exact arithmetic both say the same. In floating point a forward of K+1 rows rounds otherwise than one of a single
row, so that two tokens which the target likes almost equally may change places: a near-tie. It is told from a fault by
its margin, which is then at most twice the largest difference that the two forwards make in any logit. That difference
depends on how the prefix fell into blocks, so every way to cut it into blocks of K+1 is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from draftune.bench import measure
from draftune.decode import sampling
from draftune.decode.loop import DecodeConfig, Decoder
from draftune.decode.plain import PlainDecoder
from draftune.drafters.base import Drafter
from draftune.target.base import Runner
from draftune.types import Completion, Request


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first place where a drafted answer leaves the plain one, with what the target thought there."""

    id: str
    index: int  # 0-based among the emitted tokens
    plain_token: int | None  # None: the plain answer had ended
    drafted_token: int | None
    one_row: tuple[float, float]  # logits of the two tokens, forward of one row: plain's, drafted's
    block: tuple[float, float]  # the same, the forward of K+1 rows that differs most
    margin: float  # by which the one-row forward prefers plain's token
    spread: float  # largest difference between the two forwards in any logit

    @property
    def near_tie(self) -> bool:
        """True where rounding explains the difference; anything else is a fault."""
        return self.plain_token is not None and self.drafted_token is not None and self.margin <= 2 * self.spread


@dataclass(frozen=True, kw_only=True)
class Checked:
    """All prompts, plain and drafted."""

    num_prompts: int
    num_tokens: int  # of the plain answers
    num_accepted: int  # drafts that stood: 0 would mean that nothing was tested
    differences: tuple[Difference, ...]

    @property
    def identical(self) -> bool:
        """True where every answer has the same token ids."""
        return not self.differences

    @property
    def faults(self) -> tuple[Difference, ...]:
        """The differences that no rounding explains."""
        return tuple(one for one in self.differences if not one.near_tie)


def plainly(runner: Runner, requests: Sequence[Request]) -> list[Completion]:
    """The answers to compare with: each request by itself, one token a forward."""
    plain = PlainDecoder(runner)
    return [plain.generate([request])[0] for request in requests]


def check(
    runner: Runner,
    drafter: Drafter,
    requests: Sequence[Request],
    *,
    num_drafts: int = 5,
    plain: Sequence[Completion] | None = None,
) -> Checked:
    """What came of decoding each greedy request twice, one at a time, with the drafter and by the plain loop.

    `plain` is what `plainly` gave, where several drafters are checked on the same requests.
    """
    drafted = Decoder(runner, drafter, DecodeConfig(num_drafts=num_drafts))
    num_tokens, num_accepted, differences = 0, 0, []
    for request, wanted in zip(requests, plain or plainly(runner, requests), strict=True):
        met = drafted.generate([request])[0]
        num_tokens += len(wanted.tokens)
        num_accepted += sum(round_.num_accepted for round_ in met.rounds)
        difference = explain(runner, request, wanted, met, num_rows=num_drafts + 1)
        if difference is not None:
            differences.append(difference)
    return Checked(
        num_prompts=len(requests), num_tokens=num_tokens, num_accepted=num_accepted, differences=tuple(differences)
    )


def explain(
    runner: Runner, request: Request, plain: Completion, drafted: Completion, *, num_rows: int
) -> Difference | None:
    """The first difference of two answers with its logits, None where there is none."""
    if plain.tokens == drafted.tokens:
        return None
    index = measure.first_difference(plain.tokens, drafted.tokens)
    prefix = plain.tokens[:index]
    one_row_V = last_logits(runner, request.prompt, prefix, num_rows=1)
    blocks_V = [last_logits(runner, request.prompt, prefix, num_rows=num_rows, skip=n) for n in range(num_rows)]
    spreads = [float((one_row_V - block_V).abs().max()) for block_V in blocks_V]
    block_V = blocks_V[spreads.index(max(spreads))]
    plain_token, drafted_token = _at(plain.tokens, index), _at(drafted.tokens, index)
    one_row = _logit(one_row_V, plain_token), _logit(one_row_V, drafted_token)
    return Difference(
        id=request.id,
        index=index,
        plain_token=plain_token,
        drafted_token=drafted_token,
        one_row=one_row,
        block=(_logit(block_V, plain_token), _logit(block_V, drafted_token)),
        margin=one_row[0] - one_row[1],
        spread=max(spreads),
    )


def last_logits(
    runner: Runner, prompt: Sequence[int], tokens: Sequence[int], *, num_rows: int, skip: int = 0
) -> Tensor:
    """Logits [V] fp32 or better after prompt and tokens, the tokens but the first `skip` read `num_rows` at a time.

    Tokens a b c d e in rows of 2: [a b], [c d], [e e], of which the first row of the last counts; with skip = 1, a is
    read with the prompt, then [b c], [d e]. No row is read and dropped before another one, so that a fault in dropping
    rejected drafts cannot widen the spread.
    """
    runner.open(1, len(prompt) + len(tokens) + num_rows, taps=())
    logits_V = runner.prefill([[*prompt, *tokens[:skip]]]).logits[0, -1]
    for start in range(skip, len(tokens), num_rows):
        block = list(tokens[start : start + num_rows])
        filled = block + block[-1:] * (num_rows - len(block))
        logits_V = runner.forward(torch.tensor([filled], device=runner.device)).logits[0, len(block) - 1]
        runner.commit(torch.tensor([len(block)], device=runner.device))
    return sampling.widen(logits_V)


def _at(tokens: Sequence[int], index: int) -> int | None:
    return tokens[index] if index < len(tokens) else None


def _logit(logits_V: Tensor, token: int | None) -> float:
    return float("nan") if token is None else float(logits_V[token])
