"""Plain decoding, one token a forward: the law and the speed that drafting is measured against."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from draftune.decode.clock import Clock
from draftune.decode.judge import Judge, Rule
from draftune.decode.row import Row
from draftune.decode.stops import Detokenize
from draftune.target.base import Runner
from draftune.types import Completion, Request


class PlainDecoder:
    """Continues requests with the target alone; shares noise and stop rules with the drafted loop, not the loop."""

    def __init__(self, runner: Runner, detokenize: Detokenize | None = None, rule: Rule = "auto") -> None:
        self.runner, self.detokenize = runner, detokenize
        self.rule: Rule = rule
        self.clock = Clock(runner.device)

    @torch.inference_mode()
    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """The finished requests, in their order, decoded as one batch."""
        runner, clock = self.runner, self.clock
        rows = [Row(request, self.detokenize, runner.shape.max_length) for request in requests]
        with clock.whole():
            judge = Judge(requests, self.rule, runner.shape.vocab_size, runner.device)
            runner.open(len(rows), max(len(r.prompt) + r.max_new_tokens for r in requests), ())
            with clock.phase("prefill"):
                logits_BV = runner.prefill([request.prompt for request in requests]).logits[:, -1]
            for index in range(max(request.max_new_tokens for request in requests)):
                token_B = judge.first(logits_BV, torch.full((len(rows),), index, device=runner.device))
                for row, token in zip(rows, token_B.tolist(), strict=True):
                    if not row.finish_reason:
                        row.take([token], num_accepted=0, num_drafted=0, round_number=index)
                active_B = torch.tensor([int(not row.finish_reason) for row in rows], device=runner.device)
                if not active_B.any():
                    break
                with clock.phase("verify"):
                    logits_BV = runner.forward(token_B[:, None]).logits[:, -1]
                runner.commit(active_B)
        return [row.completion() for row in rows]
