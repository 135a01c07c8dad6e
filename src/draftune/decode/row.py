"""One request on its way: what was emitted, why it ended, and what each round counted."""

from __future__ import annotations

from collections.abc import Sequence

from draftune import errors
from draftune.decode.stops import Detokenize, StopRule
from draftune.types import Completion, FinishReason, Request, Round, Token


class Row:
    """Takes tokens one by one until a stop rule ends it; the rest of an accepted block is never emitted."""

    def __init__(self, request: Request, detokenize: Detokenize | None, max_length: int) -> None:
        check(request, max_length)
        self.request = request
        self.finish_reason: FinishReason | None = None
        self._stop = StopRule(request, detokenize)
        self._trail: list[Token] = []
        self.rounds: list[Round] = []  # what each round counted, stop rules applied
        self._tokens: list[int] = []

    @property
    def num_emitted(self) -> int:
        return len(self._tokens)

    @property
    def num_left(self) -> int:
        """Tokens it may still emit; 0 once finished."""
        return 0 if self.finish_reason else self.request.max_new_tokens - len(self._tokens)

    def take(self, tokens: Sequence[int], num_accepted: int, num_drafted: int, round_number: int) -> list[Token]:
        """Emit the accepted drafts and the target's token after them; returns what the stop rules let through."""
        emitted: list[Token] = []
        for place, token in enumerate(tokens, start=1):
            offset = place if place <= num_accepted else 0
            self._tokens.append(token)
            emitted.append(
                Token(id=self.request.id, index=len(self._tokens) - 1, token=token, round=round_number, offset=offset)
            )
            self.finish_reason = self._stop.check(self._tokens)
            if self.finish_reason:
                break
        self._trail.extend(emitted)
        if round_number > 0:
            self._count(len(emitted), num_accepted, num_drafted)
        return emitted

    def _count(self, num_emitted: int, num_accepted: int, num_drafted: int) -> None:
        if num_emitted <= num_accepted:  # stopped inside the block: drafts beyond the stop count nowhere
            num_accepted = num_drafted = num_emitted
        self.rounds.append(Round(num_drafted=num_drafted, num_accepted=num_accepted, num_emitted=num_emitted))

    def completion(self) -> Completion:
        """The finished request (or, for a cancelled one, what it has so far)."""
        return Completion(
            id=self.request.id,
            tokens=tuple(self._tokens),
            text=self._stop.text(self._tokens),
            finish_reason=self.finish_reason or "length",
            rounds=tuple(self.rounds),
            trail=tuple(self._trail),
        )


def check(request: Request, max_length: int) -> None:
    """Refuse a request that could not be served to its end."""
    doing = f"starting request {request.id!r}"
    if not request.prompt:
        raise errors.ConfigError(doing=doing, met="a prompt without tokens", todo="give at least one")
    if request.max_new_tokens < 1:
        met = f"max_new_tokens {request.max_new_tokens}"
        raise errors.ConfigError(doing=doing, met=met, todo="ask for at least one token")
    if request.temperature < 0:
        met = f"temperature {request.temperature}"
        raise errors.ConfigError(doing=doing, met=met, todo="give 0 (greedy) or more")
    needed = len(request.prompt) + request.max_new_tokens
    if needed > max_length:
        raise errors.ConfigError(
            doing=doing,
            met=f"{len(request.prompt)} + {request.max_new_tokens} tokens exceed the context of {max_length}",
            todo="shorten the prompt or ask for fewer tokens",
        )
