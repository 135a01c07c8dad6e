"""Text as it may be shown: a character once given is never withdrawn."""

from __future__ import annotations

from collections.abc import Sequence

from draftune.decode.stops import Detokenize, cut

_UNFINISHED = "\ufffd"  # what tokenizers show for the first bytes of a character


class TextStream:
    """Turns growing token lists into pieces of text that are safe to show.

    Held back are an unfinished character and an ending that could be the start of a stop string.
    """

    def __init__(self, detokenize: Detokenize, stop_strings: Sequence[str] = ()) -> None:
        self._detokenize, self._stops = detokenize, tuple(stop_strings)
        self._tokens: list[int] = []
        self._shown = 0  # characters given so far

    def push(self, tokens: Sequence[int]) -> str:
        """The new text that may be shown after these tokens."""
        self._tokens.extend(tokens)
        text = self._detokenize(self._tokens).rstrip(_UNFINISHED)
        whole = cut(text, self._stops)
        safe = whole if whole != text else text[: len(text) - _held(text, self._stops)]
        return self._give(safe)

    def finish(self) -> str:
        """What was held back and is text after all."""
        return self._give(cut(self._detokenize(self._tokens), self._stops))

    def _give(self, text: str) -> str:
        piece = text[self._shown :]
        self._shown = max(self._shown, len(text))
        return piece


def _held(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end could begin a stop string."""
    for length in range(min(len(text), max(map(len, stops), default=1) - 1), 0, -1):
        if any(stop.startswith(text[-length:]) for stop in stops):
            return length
    return 0
