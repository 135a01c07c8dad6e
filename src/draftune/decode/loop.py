"""Draft K tokens, verify once, keep what stands: the batched loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from draftune import errors
from draftune.decode.clock import Clock
from draftune.decode.judge import Judge
from draftune.decode.plan import Plan
from draftune.decode.row import Row
from draftune.decode.stops import Detokenize
from draftune.drafters.base import Drafter, Prefix
from draftune.target.base import Runner, Step
from draftune.types import Completion, Draft, Features, Request, Rule, Token, Verdict

Observer = Callable[[int, Features, Draft, Verdict], None]  # round number and what was met in it, for traces


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """How to draft and judge."""

    num_drafts: int = 5  # K, drafts a round at most
    rule: Rule = "auto"

    def __post_init__(self) -> None:
        if self.num_drafts < 1:
            met = f"K = {self.num_drafts} drafts a round"
            raise errors.ConfigError(doing="setting up decoding", met=met, todo="give 1 or more, or decode plainly")


class Decoder:
    """Continues requests with a target and its drafter; the text is the target's own."""

    def __init__(
        self,
        runner: Runner,
        drafter: Drafter,
        config: DecodeConfig | None = None,
        detokenize: Detokenize | None = None,
        observer: Observer | None = None,
        plan: Plan | None = None,
    ) -> None:
        """With a `plan`, K is chosen round by round, `config.num_drafts` at most."""
        self.runner, self.drafter, self.config = runner, drafter.ready(), config or DecodeConfig()
        self.detokenize, self.observer, self.plan = detokenize, observer, plan
        self.clock = Clock(runner.device)
        most = drafter.max_drafts
        if most is not None and self.config.num_drafts > most:
            raise errors.ConfigError(
                doing="setting up decoding",
                met=f"K = {self.config.num_drafts} from a drafter made for at most {most}",
                todo=f"ask for at most {most} drafts or train a drafter with more heads",
            )

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """The finished requests, in their order, decoded as one batch."""
        session = self.start(requests)
        while not session.done:
            session.step()
        return session.completions()

    def stream(self, requests: Sequence[Request]) -> Iterator[list[Token]]:
        """The tokens of each round as they are emitted; none is ever withdrawn."""
        session = self.start(requests)
        yield session.first
        while not session.done:
            yield session.step()

    def start(self, requests: Sequence[Request]) -> Session:
        """Prefill the requests and emit the first token of each."""
        return Session(self, requests)


class Session:
    """A batch of requests between its prefill and its last round."""

    @torch.inference_mode()
    def __init__(self, decoder: Decoder, requests: Sequence[Request]) -> None:
        self._decoder, runner = decoder, decoder.runner
        self._rows = [Row(request, decoder.detokenize, runner.shape.max_length) for request in requests]
        self._round = 0
        with decoder.clock.whole():
            self._judge = Judge(requests, decoder.config.rule, runner.shape.vocab_size, runner.device)
            step = self._prefill(requests)
            anchor_B = self._judge.first(step.logits[:, -1], self._indices())
            with decoder.clock.phase("draft"):
                self._state = decoder.drafter.begin(_prefix(requests, step.features, anchor_B))
            self._anchor_B = anchor_B
            self.first = self._emit([[token] for token in anchor_B.tolist()], [0] * len(requests), [0] * len(requests))

    @property
    def done(self) -> bool:
        """True once every row has finished."""
        return all(row.finish_reason for row in self._rows)

    def completions(self) -> list[Completion]:
        """The rows as they stand, in the order of their requests."""
        return [row.completion() for row in self._rows]

    @torch.inference_mode()
    def step(self) -> list[Token]:
        """One round: draft, verify, judge, commit; returns the tokens it emitted."""
        decoder, runner, clock = self._decoder, self._decoder.runner, self._decoder.clock
        self._round += 1
        with clock.whole():
            index_B = self._indices()
            with clock.phase("draft"):
                sampler = self._judge.sampler(index_B, self._round)
                draft = decoder.drafter.propose(self._state, self._budgets(), sampler).to(runner.device)
            with clock.phase("verify"):
                step = runner.forward(torch.cat([self._anchor_B[:, None], draft.tokens], dim=1))
            verdict = self._judge.judge(step.logits, draft, index_B, self._round)
            with clock.phase("draft"):
                self._state = decoder.drafter.observe(self._state, draft, verdict, step.features)
            self._anchor_B = verdict.next_token
            if decoder.observer:
                decoder.observer(self._round, step.features, draft, verdict)
            blocks, accepted, drafted = _blocks(draft, verdict)
            counts = zip(self._rows, accepted, strict=True)
            runner.commit(torch.tensor([0 if row.finish_reason else count + 1 for row, count in counts]))
            return self._emit(blocks, accepted, drafted)

    def _prefill(self, requests: Sequence[Request]) -> Step:
        runner, decoder = self._decoder.runner, self._decoder
        longest = max(len(request.prompt) + request.max_new_tokens for request in requests)
        capacity = min(longest + decoder.config.num_drafts + 1, runner.shape.max_length)
        runner.open(len(requests), capacity, decoder.drafter.taps)
        with decoder.clock.phase("prefill"):
            return runner.prefill([request.prompt for request in requests], [request.id for request in requests])

    def _emit(self, blocks: list[list[int]], accepted: list[int], drafted: list[int]) -> list[Token]:
        emitted: list[Token] = []
        running = [row for row in self._rows if not row.finish_reason]
        for row, block, num_accepted, num_drafted in zip(self._rows, blocks, accepted, drafted, strict=True):
            if not row.finish_reason:
                emitted += row.take(block, num_accepted, num_drafted, self._round)
        if self._decoder.plan is not None and self._round:
            self._decoder.plan.learn([row.rounds[-1] for row in running])
        return emitted

    def _indices(self) -> Tensor:
        """[B] the emitted index of the next token of each row."""
        indices = torch.tensor([row.num_emitted for row in self._rows])
        return indices.to(self._decoder.runner.device, non_blocking=True)

    def _budgets(self) -> Tensor:
        """[B] on the host: drafts a row may use. One token of its limit is always the target's."""
        most, plan = self._decoder.config.num_drafts, self._decoder.plan
        most = most if plan is None else min(most, plan.num_drafts)
        return torch.tensor([max(0, min(most, row.num_left - 1)) for row in self._rows])


def _prefix(requests: Sequence[Request], features: Features, anchor_B: Tensor) -> Prefix:
    lengths_B = torch.tensor([len(request.prompt) for request in requests])
    tokens_BT = torch.zeros(len(requests), int(lengths_B.max()), dtype=torch.int64)
    for row, request in zip(tokens_BT, requests, strict=True):
        row[: len(request.prompt)] = torch.tensor(request.prompt)
    device = anchor_B.device
    return Prefix(tokens=tokens_BT.to(device), lengths=lengths_B.to(device), features=features, anchor=anchor_B)


def _blocks(draft: Draft, verdict: Verdict) -> tuple[list[list[int]], list[int], list[int]]:
    """Emitted tokens, accepted and drafted counts of each row: the only wait for the device in a round."""
    counts_B3 = torch.stack([verdict.num_accepted, verdict.next_token, draft.num_drafted], dim=1)
    told = torch.cat([counts_B3, draft.tokens], dim=1).tolist()
    blocks = [[*tokens[:accepted], anchor] for accepted, anchor, _, *tokens in told]
    return blocks, [row[0] for row in told], [row[2] for row in told]
