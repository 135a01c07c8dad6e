"""`draftune chat`: a conversation with a bundle."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from draftune.cli import desk, options

if TYPE_CHECKING:
    from draftune.cli.voice import Voice
    from draftune.types import Message

LEAVE = ("/exit", "/quit")
AGAIN = "/new"


def chat(
    bundle: options.Bundle,
    system: options.System = None,
    max_new_tokens: options.MaxNewTokens = 256,
    temperature: options.Temperature = 0.0,
    seed: options.Seed = None,
    num_drafts: options.NumDrafts = 5,
    rule: options.Rule = "auto",
    drafter: options.Drafter = None,
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    base: options.Base = None,
) -> None:
    """Talk with a bundle: one line a turn, /new forgets the conversation, /exit or Ctrl-D leaves."""
    from draftune.cli import voice as voices
    from draftune.types import Message

    voice = voices.open_voice(
        bundle, drafter=drafter, num_drafts=num_drafts, rule=rule, dtype=dtype, device=device, base=base
    )
    opening = [Message(role="system", content=system)] if system else []
    messages = list(opening)
    while (line := _listen()) is not None:
        if line == AGAIN:
            messages = list(opening)
            continue
        messages.append(Message(role="user", content=line))
        answer = _answer(voice, messages, max_new_tokens=max_new_tokens, temperature=temperature, seed=seed)
        messages.append(Message(role="assistant", content=answer))


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


def _answer(voice: Voice, messages: list[Message], *, max_new_tokens: int, temperature: float, seed: int | None) -> str:
    from draftune.cli import voice as voices

    request = voice.request(messages, max_new_tokens=max_new_tokens, temperature=temperature, seed=seed, stop=())
    said = []
    for piece, _ in voices.speak(voice, request):
        desk.result(piece, end="")
        said.append(piece)
    desk.result("")
    return "".join(said)
