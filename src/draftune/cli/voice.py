"""A bundle made ready to speak: what `generate` and `chat` share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from draftune import errors
from draftune.cli import desk

if TYPE_CHECKING:
    from draftune.decode.loop import Decoder
    from draftune.decode.plain import PlainDecoder
    from draftune.export.bundle import Bundle
    from draftune.target.blocks import BlockRunner
    from draftune.target.image import Image
    from draftune.target.target import Target
    from draftune.types import Message, Request, RunnerKind, Token

NO_DRAFTER = "none"


@dataclass(frozen=True, kw_only=True)
class Voice:
    """The tuned target with its adapter folded in, and the decoder that speaks for it."""

    target: Target | Image
    decoder: Decoder | PlainDecoder
    drafter: str  # its name, or "none"

    def request(
        self,
        messages: Sequence[Message],
        *,
        max_new_tokens: int,
        temperature: float,
        seed: int | None,
        stop: Sequence[str],
    ) -> Request:
        """The conversation as a request, to be ended by the model's own mark, or where its context is full.

        Raises DataError where the prompt leaves no room for an answer.
        """
        from draftune.data import template
        from draftune.types import Request

        prompt, room = self._encode(messages), self.room(messages)
        if room < 1:
            met = f"{len(prompt)} tokens fill the model's context of {self.target.shape.max_length}"
            raise errors.DataError(doing="reading the prompt", met=met, todo="shorten it")
        return Request(
            id="prompt",
            prompt=prompt,
            max_new_tokens=min(max_new_tokens, room),
            temperature=temperature,
            seed=seed,
            stop_tokens=template.end_tokens(self.target.tokenizer),
            stop_strings=tuple(stop),
        )

    def room(self, messages: Sequence[Message]) -> int:
        """The tokens that the model's context has left for an answer."""
        return self.target.shape.max_length - len(self._encode(messages))

    def _encode(self, messages: Sequence[Message]) -> tuple[int, ...]:
        from draftune.data import template

        return tuple(template.encode_prompt(messages, self.target.tokenizer))


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How to speak, as it was asked for on the command line."""

    drafter: str | None  # None for the bundle's default one, "none" for no drafter
    num_drafts: int | None  # None for as many as it was trained for
    adaptive: bool | None  # None: where no number of drafts was asked for
    rule: str
    runner: str


def open_voice(folder: Path, manner: Manner, *, dtype: str, device: str, base: str | None) -> Voice:
    """The bundle in `folder`, speaking. Raises ConfigError for what cannot be honoured, before a model is loaded."""
    from draftune import config as configs
    from draftune.bench.run import CALIBRATION_LENGTH, detokenizer
    from draftune.decode.calibrate import adaptive
    from draftune.decode.loop import DecodeConfig, Decoder
    from draftune.decode.plain import PlainDecoder
    from draftune.export import bundle as bundles

    known, wanted = bundles.read_card(folder).num_drafts, manner.num_drafts
    settings = {"num_drafts": known if wanted is None else wanted, "rule": manner.rule}
    kind = runner_kind(manner.runner)
    config = configs.make(DecodeConfig, settings, doing="reading the decoding settings")
    bundle, reader = _open(folder, manner.drafter, kind, dtype=dtype, device=device, base=base)
    detokenize = detokenizer(bundle.target)
    if not bundle.drafters:
        return Voice(target=bundle.target, decoder=PlainDecoder(reader, detokenize), drafter=NO_DRAFTER)
    [(name, module)] = bundle.drafters.items()
    plan = None
    if manner.adaptive or (manner.adaptive is None and wanted is None):
        plan = adaptive(
            reader,
            module,
            num_rows=1,
            length=CALIBRATION_LENGTH,
            most=config.num_drafts,
            alpha=bundles.known_alpha(folder, name),
            pair=(bundle.card.tuned_fingerprint, name, bundle.target.dtype),
        )
    decoder = Decoder(reader, module, config, detokenize, plan=plan)
    return Voice(target=bundle.target, decoder=decoder, drafter=name)


def _open(
    folder: Path, drafter: str | None, kind: RunnerKind, *, dtype: str, device: str, base: str | None
) -> tuple[Bundle[Any], BlockRunner]:
    """The bundle and a runner of its target, from the weights that an earlier call left packed if it did."""
    from draftune.export import bundle as bundles

    desk.quiet()
    where: dict[str, Any] = {"dtype": dtype, "device": device, "base": base}
    if kind in ("auto", "packed"):
        kept = bundles.read_image(folder, drafters=_names(folder, drafter), **where)
        if kept is not None:
            return kept, kept.target.runner(kind)
    bundle = open_bundle(folder, drafter=drafter, **where)
    reader = bundle.target.runner(kind, release=True)
    bundles.keep_image(bundle, base)
    return bundle, reader


def _names(folder: Path, drafter: str | None) -> list[str]:
    """The drafters to load: the one asked for, the bundle's default, or none."""
    from draftune.export import bundle as bundles

    return [] if drafter == NO_DRAFTER else [drafter or bundles.read_card(folder).drafter]


def runner_kind(name: str) -> RunnerKind:
    """The kind of runner of this name. Raises ConfigError where there is none."""
    from draftune.types import RunnerKind

    known = get_args(RunnerKind)
    if name not in known:
        met, todo = f"no runner is called {name!r}", errors.nearest(name, known)
        raise errors.ConfigError(doing="choosing a runner", met=met, todo=todo)
    return cast("RunnerKind", name)


def open_bundle(folder: Path, *, drafter: str | None, dtype: str, device: str, base: str | None) -> Bundle[Target]:
    """The bundle with its adapter folded into the weights and one drafter, or none."""
    import dataclasses

    from draftune.export import bundle as bundles
    from draftune.target import lora

    desk.quiet()
    bundle = bundles.read(folder, dtype=dtype, device=device, base=base, drafters=_names(folder, drafter))
    return dataclasses.replace(bundle, target=lora.merge(bundle.target, keep=False)) if bundle.card.adapter else bundle


def speak(voice: Voice, request: Request) -> Iterator[tuple[str, list[Token]]]:
    """Pieces of text as they are certain, each with the tokens that came with it."""
    from draftune.bench.run import detokenizer
    from draftune.decode.stream import TextStream

    text, num_tokens = TextStream(detokenizer(voice.target), request.stop_strings), len(request.prompt)
    for tokens in voice.decoder.stream([request]):
        num_tokens += len(tokens)
        heard = [token.token for token in tokens if token.token not in request.stop_tokens]
        yield text.push(heard), tokens
    yield text.finish(), []
    if num_tokens >= voice.target.shape.max_length:
        desk.note(f"the answer ends where the model's context of {num_tokens} tokens is full")
