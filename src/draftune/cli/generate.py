"""`draftune generate`: continue one prompt with a bundle."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from draftune import errors
from draftune.cli import desk, options

if TYPE_CHECKING:
    from draftune.cli.voice import Voice
    from draftune.types import Token


def generate(
    bundle: options.Bundle,
    prompt: Annotated[str | None, typer.Argument(help="The prompt; without it, --file or stdin is read.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the prompt from this file.")] = None,
    system: options.System = None,
    max_new_tokens: options.MaxNewTokens = 256,
    temperature: options.Temperature = 0.0,
    seed: options.Seed = None,
    num_drafts: options.AsTrained = None,
    adaptive: options.Chosen = None,
    rule: options.Rule = "auto",
    drafter: options.Drafter = None,
    stop: Annotated[list[str] | None, typer.Option(help="End the answer before this text; may be given again.")] = None,
    trace: Annotated[bool, typer.Option(help="Show on stderr where each token came from.")] = False,
    stats: Annotated[bool, typer.Option(help="Show on stderr how fast it was and how many drafts stood.")] = False,
    runner: options.Runner = "auto",
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    base: options.Base = None,
) -> None:
    """Continue a prompt and stream the answer to stdout.

    The text is that of plain decoding, whatever drafts for it: --drafter none proves it.
    """
    messages = options.messages(system, _prompt(prompt, file))
    from draftune.cli import voice as voices

    manner = voices.Manner(drafter=drafter, num_drafts=num_drafts, adaptive=adaptive, rule=rule, runner=runner)
    voice = voices.open_voice(bundle, manner, dtype=dtype, device=device, base=base)
    request = voice.request(
        messages, max_new_tokens=max_new_tokens, temperature=temperature, seed=seed, stop=stop or ()
    )
    trail: list[Token] = []
    for piece, tokens in voices.speak(voice, request):
        desk.result(piece, end="")
        trail.extend(tokens)
    desk.result("")
    if trace:
        _show_trace(voice, trail)
    if stats:
        _show_stats(voice, trail)


def _prompt(prompt: str | None, file: Path | None) -> str:
    """The prompt from wherever it was given. Raises ConfigError for none or two, DataError for an unreadable file."""
    if prompt is not None and file is not None:
        raise errors.ConfigError(doing="reading the prompt", met="both a prompt and --file", todo="give one of them")
    if file is not None:
        prompt = _read(file).removesuffix("\n")
    elif prompt is None and not sys.stdin.isatty():
        prompt = sys.stdin.read().removesuffix("\n")
    if not prompt or not prompt.strip():
        raise errors.ConfigError(
            doing="reading the prompt", met="no text", todo="give it as an argument, by --file or on stdin"
        )
    return prompt


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        met = (getattr(error, "strerror", None) or str(error)).lower()
        raise errors.DataError(doing=f"reading the prompt from {file}", met=met, todo="give a text file") from error


def _show_trace(voice: Voice, trail: list[Token]) -> None:
    """One line a token: its round, the draft offset that was accepted (0: the target's own choice), its text."""
    console = desk.console()
    for token in trail:
        source = f"draft {token.offset}" if token.offset else "target"
        text = voice.target.tokenizer.decode([token.token])
        console.print(f"{token.index:5}  round {token.round:4}  {source:8}  {text!r}", markup=False)


def _show_stats(voice: Voice, trail: list[Token]) -> None:
    seconds = voice.decoder.clock.seconds
    total_s = sum(seconds.values())
    decode_s = total_s - seconds["prefill"]
    decoded = [token for token in trail if token.round > 0]
    num_rounds = len({token.round for token in decoded})
    console = desk.console()
    console.print(f"drafter {voice.drafter}: {len(trail)} tokens in {total_s:.2f} s")
    if num_rounds:
        rate = len(decoded) / decode_s
        console.print(f"{rate:.1f} tokens/s after the prefill, {len(decoded) / num_rounds:.2f} tokens a round")
