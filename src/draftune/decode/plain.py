"""Plain decoding, one token a forward: the law and the speed that drafting is measured against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from draftune.decode.clock import Clock
from draftune.decode.judge import Judge
from draftune.decode.row import Row
from draftune.decode.stops import Detokenize
from draftune.target.base import Runner
from draftune.types import Completion, Request, Token


class PlainDecoder:
    """Continues requests with the target alone; shares noise and stop rules with the drafted loop, not the loop.

    Each token is argmax(log p + g) with noise of its own index, which has the law p whatever rule drafts are judged by.
    """

    def __init__(self, runner: Runner, detokenize: Detokenize | None = None) -> None:
        self.runner, self.detokenize = runner, detokenize
        self.clock = Clock(runner.device)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """The finished requests, in their order, decoded as one batch."""
        rows = self._rows(requests)
        for _ in self._decode(rows):
            pass
        return [row.completion() for row in rows]

    def stream(self, requests: Sequence[Request]) -> Iterator[list[Token]]:
        """The token of each unfinished row, forward by forward."""
        return self._decode(self._rows(requests))

    def _rows(self, requests: Sequence[Request]) -> list[Row]:
        return [Row(request, self.detokenize, self.runner.shape.max_length) for request in requests]

    def _decode(self, rows: list[Row]) -> Iterator[list[Token]]:
        runner, requests = self.runner, [row.request for row in rows]
        judge = Judge(requests, "match", runner.shape.vocab_size, runner.device)
        with self.clock.whole():
            runner.open(len(rows), max(len(r.prompt) + r.max_new_tokens for r in requests), ())
            with self.clock.phase("prefill"):
                logits_BV = runner.prefill([r.prompt for r in requests], [r.id for r in requests]).logits[:, -1]
        for index in range(max(request.max_new_tokens for request in requests)):
            with self.clock.whole(), torch.inference_mode():
                token_B = judge.first(logits_BV, torch.full((len(rows),), index, device=runner.device))
                emitted = [
                    row.take([token], num_accepted=0, num_drafted=0, round_number=index)[0]
                    for row, token in zip(rows, token_B.tolist(), strict=True)
                    if not row.finish_reason
                ]
                active = [int(not row.finish_reason) for row in rows]
                if any(active):
                    with self.clock.phase("verify"):
                        logits_BV = runner.forward(token_B[:, None]).logits[:, -1]
                    runner.commit(torch.tensor(active))
            yield emitted
            if not any(active):
                return
