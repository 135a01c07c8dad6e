"""`draftune chat`: a conversation with a bundle."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from draftune import errors
from draftune.cli import desk, options

if TYPE_CHECKING:
    from draftune.cli.voice import Voice
    from draftune.types import Message, Request

LEAVE = ("/exit", "/quit")
AGAIN = "/new"
SHARE = 4  # a full conversation keeps this part of the context for the answer, unless less was asked for


def chat(
    bundle: options.Bundle,
    system: options.System = None,
    max_new_tokens: options.MaxNewTokens = 256,
    temperature: options.Temperature = 0.0,
    seed: options.Seed = None,
    num_drafts: options.AsTrained = None,
    adaptive: options.Chosen = None,
    rule: options.Rule = "auto",
    drafter: options.Drafter = None,
    runner: options.Runner = "auto",
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    base: options.Base = None,
) -> None:
    """Talk with a bundle: one line a turn, /new forgets the conversation, /exit or Ctrl-D leaves."""
    from draftune.cli import voice as voices
    from draftune.types import Message

    manner = voices.Manner(drafter=drafter, num_drafts=num_drafts, adaptive=adaptive, rule=rule, runner=runner)
    voice = voices.open_voice(bundle, manner, dtype=dtype, device=device, base=base)
    opening = [Message(role="system", content=system)] if system else []
    messages = list(opening)
    while (line := _listen()) is not None:
        if line == AGAIN:
            messages = list(opening)
            continue
        messages.append(Message(role="user", content=line))
        try:
            messages, request = _fit(
                voice, messages, len(opening), max_new_tokens=max_new_tokens, temperature=temperature, seed=seed
            )
        except errors.DataError as error:  # too long by itself: the conversation goes on without it
            desk.complain(error)
            messages.pop()
            continue
        messages.append(Message(role="assistant", content=_answer(voice, request)))


def _listen() -> str | None:
    """The next line that says something, None where the conversation ends."""
    while True:
        if sys.stdin.isatty():
            desk.console().print("[bold]>[/] ", end="")
        line = sys.stdin.readline()
        if not line or line.strip() in LEAVE:
            return None
        if line.strip():
            return line.strip()


def _fit(
    voice: Voice, messages: list[Message], num_opening: int, *, max_new_tokens: int, **how: Any
) -> tuple[list[Message], Request]:
    """The conversation as a request with room for an answer; its oldest turns are dropped, and that is said.

    Raises DataError where the newest turn alone fills the context.
    """
    needed = min(max_new_tokens, voice.target.shape.max_length // SHARE)
    kept = list(messages)
    while len(kept) > num_opening + 1 and voice.room(kept) < needed:
        del kept[num_opening : num_opening + 2]  # a question and its answer
    request = voice.request(kept, max_new_tokens=max_new_tokens, stop=(), **how)
    if dropped := len(messages) - len(kept):
        desk.note(f"the context of {voice.target.shape.max_length} tokens is full: its {dropped} oldest turns are gone")
    return kept, request


def _answer(voice: Voice, request: Request) -> str:
    from draftune.cli import voice as voices

    said = []
    for piece, _ in voices.speak(voice, request):
        desk.result(piece, end="")
        said.append(piece)
    desk.result("")
    return "".join(said)
