"""Plain decoding as a reader would write it: no cache, no batch, no code of the decoders under test but the noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from draftune.decode import noise
from draftune.drafters.base import Drafter, Prefix, Sampler
from draftune.target.target import Target
from draftune.types import Draft, Features, Request, Verdict


@torch.inference_mode()
def plain(target: Target, request: Request, detokenize: Callable[[Sequence[int]], str] | None = None) -> list[int]:
    """The token ids of one request, decoded one at a time from scratch."""
    emitted: list[int] = []
    while len(emitted) < request.max_new_tokens:
        logits = target.model(input_ids=torch.tensor([[*request.prompt, *emitted]])).logits[0, -1]
        if request.temperature > 0:
            key = noise.keys([(request.seed, request.sample)])
            log_p = torch.log_softmax(logits / request.temperature, dim=-1)
            logits = log_p + noise.gumbel(key, torch.tensor([[len(emitted)]]), torch.arange(len(logits)))[0, 0]
        emitted.append(int(logits.argmax()))
        if emitted[-1] in request.stop_tokens:
            break
        if detokenize and any(stop in detokenize(emitted) for stop in request.stop_strings):
            break
    return emitted


Oracle = Callable[[int, Sequence[int]], Tensor]  # (row, tokens after the prompt) -> logits [V] of the next token


@dataclass
class _State:
    inner: Any
    emitted: list[list[int]] = field(default_factory=list)  # of each row, the anchor last


class Helped(Drafter):
    """A drafter that knows the target's mind: at an offset it may draw from the oracle's logits instead of its own.

    Whether it does is decided by a coin before the draw, so the law of `rejection` is untouched.
    """

    def __init__(self, inner: Drafter, oracle: Oracle, chance: float, seed: int = 0) -> None:
        super().__init__()
        self.inner, self.oracle, self.chance = inner, oracle, chance
        self.taps = inner.taps
        self.coin = torch.Generator().manual_seed(seed)

    def begin(self, prefix: Prefix) -> _State:
        return _State(self.inner.begin(prefix), [[anchor] for anchor in prefix.anchor.tolist()])

    def propose(self, state: _State, budget_B: Tensor, sampler: Sampler) -> Draft:
        def helped(logits_BV: Tensor, drafted_BK: Tensor, ids_V: Tensor | None):
            return sampler(self._help(logits_BV, drafted_BK.tolist(), ids_V, state), drafted_BK, ids_V)

        helped.greedy = False  # the drafter's own largest logit will not do
        draft = self.inner.propose(state.inner, budget_B, helped)
        return draft if self.inner.trainable else self._copy(state, budget_B, draft)

    def _help(self, logits_BV: Tensor, drafted: list[list[int]], ids_V: Tensor | None, state: _State) -> Tensor:
        rows = []
        for row, (logits_V, tokens) in enumerate(zip(logits_BV, drafted, strict=True)):
            if torch.rand((), generator=self.coin) < self.chance:
                known_V = self.oracle(row, [*state.emitted[row], *tokens])
                logits_V = (known_V if ids_V is None else known_V[ids_V]).to(logits_BV)
            rows.append(logits_V)
        return torch.stack(rows)

    def _copy(self, state: _State, budget_B: Tensor, draft: Draft) -> Draft:
        """The same for drafters that copy: the oracle's likeliest token is a point mass known before judging."""
        width = int(budget_B.max())
        tokens_BK = torch.nn.functional.pad(draft.tokens, (0, width - draft.tokens.shape[1]))
        num_drafted = draft.num_drafted.tolist()
        for row, budget in enumerate(budget_B.tolist()):
            for offset in range(budget):
                if torch.rand((), generator=self.coin) < self.chance and offset <= num_drafted[row]:
                    known_V = self.oracle(row, [*state.emitted[row], *tokens_BK[row, :offset].tolist()])
                    tokens_BK[row, offset] = known_V.argmax()
                    num_drafted[row] = max(num_drafted[row], offset + 1)
        return Draft(tokens=tokens_BK, num_drafted=torch.tensor(num_drafted))

    def observe(self, state: _State, draft: Draft, verdict: Verdict, features: Features) -> _State:
        for emitted, tokens, accepted, anchor in zip(
            state.emitted,
            draft.tokens.tolist(),
            verdict.num_accepted.tolist(),
            verdict.next_token.tolist(),
            strict=True,
        ):
            emitted += [*tokens[:accepted], anchor]
        return _State(self.inner.observe(state.inner, draft, verdict, features), state.emitted)
