"""When a row ends: token by token, so that nothing beyond a stop inside an accepted block is ever emitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from draftune import errors
from draftune.types import FinishReason, Request

Detokenize = Callable[[Sequence[int]], str]


class StopRule:
    """The stop conditions of one request: stop tokens, stop strings, the length limit."""

    def __init__(self, request: Request, detokenize: Detokenize | None) -> None:
        if request.stop_strings and detokenize is None:
            raise errors.ConfigError(
                doing=f"starting request {request.id!r}", met="stop strings but no way to make text of tokens",
                todo="hand `detokenize` to the decoder",
            )  # fmt: skip
        if "" in request.stop_strings:
            raise errors.ConfigError(
                doing=f"starting request {request.id!r}", met="an empty stop string", todo="give one character or more"
            )
        self._request, self._detokenize = request, detokenize
        longest = max((len(text.encode()) for text in request.stop_strings), default=0)
        self._tail = longest + 16  # every token is at least a byte; the rest is room for incomplete characters

    def check(self, tokens: Sequence[int]) -> FinishReason | None:
        """Why the row ends with the newest of its emitted tokens, or None."""
        request = self._request
        if tokens[-1] in request.stop_tokens or self._ends_with_string(tokens):
            return "stop"
        return "length" if len(tokens) >= request.max_new_tokens else None

    def text(self, tokens: Sequence[int]) -> str:
        """The text of a finished row: without the stop token, cut before the first stop string."""
        if self._detokenize is None:
            return ""
        kept = tokens[:-1] if tokens and tokens[-1] in self._request.stop_tokens else tokens
        return cut(self._detokenize(kept), self._request.stop_strings)

    def _ends_with_string(self, tokens: Sequence[int]) -> bool:
        if not self._request.stop_strings or self._detokenize is None:
            return False
        tail = self._detokenize(tokens[-self._tail :])
        return any(stop in tail for stop in self._request.stop_strings)


def cut(text: str, stops: Sequence[str]) -> str:
    """The text before the first occurrence of any stop string."""
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else text
