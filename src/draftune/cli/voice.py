"""A bundle made ready to speak: what `generate` and `chat` share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from draftune.decode.loop import Decoder
    from draftune.decode.plain import PlainDecoder
    from draftune.export.bundle import Bundle
    from draftune.target.target import Target
    from draftune.types import Message, Request, Token

NO_DRAFTER = "none"


@dataclass(frozen=True, kw_only=True)
class Voice:
    """The tuned target with its adapter folded in, and the decoder that speaks for it."""

    target: Target
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
        """The conversation as a request, to be ended by the model's own mark."""
        from draftune.data import template
        from draftune.types import Request

        return Request(
            id="prompt",
            prompt=tuple(template.encode_prompt(messages, self.target.tokenizer)),
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            seed=seed,
            stop_tokens=template.end_tokens(self.target.tokenizer),
            stop_strings=tuple(stop),
        )


def open_voice(
    folder: Path, *, drafter: str | None, num_drafts: int, rule: str, dtype: str, device: str, base: str | None
) -> Voice:
    """The bundle in `folder`, speaking with the named drafter: None for its default one, "none" for no drafter."""
    from draftune import config as configs
    from draftune.bench.run import detokenizer
    from draftune.decode.loop import DecodeConfig, Decoder
    from draftune.decode.plain import PlainDecoder

    settings = {"num_drafts": num_drafts, "rule": rule}
    config = configs.make(DecodeConfig, settings, doing="reading the decoding settings")
    bundle = open_bundle(folder, drafter=drafter, dtype=dtype, device=device, base=base)
    runner, detokenize = bundle.target.runner(), detokenizer(bundle.target)
    if not bundle.drafters:
        return Voice(target=bundle.target, decoder=PlainDecoder(runner, detokenize), drafter=NO_DRAFTER)
    [(name, module)] = bundle.drafters.items()
    return Voice(target=bundle.target, decoder=Decoder(runner, module, config, detokenize), drafter=name)


def open_bundle(folder: Path, *, drafter: str | None, dtype: str, device: str, base: str | None) -> Bundle:
    """The bundle with its adapter folded into the weights and one drafter, or none."""
    import dataclasses

    from draftune.cli import desk
    from draftune.export import bundle as bundles
    from draftune.target import lora

    desk.quiet()
    card = bundles.read_card(folder)
    names = [] if drafter == NO_DRAFTER else [drafter or card.drafter]
    bundle = bundles.read(folder, dtype=dtype, device=device, base=base, drafters=names)
    return dataclasses.replace(bundle, target=lora.merge(bundle.target, keep=False)) if card.adapter else bundle


def speak(voice: Voice, request: Request) -> Iterator[tuple[str, list[Token]]]:
    """Pieces of text as they are certain, each with the tokens that came with it."""
    from draftune.bench.run import detokenizer
    from draftune.decode.stream import TextStream

    text = TextStream(detokenizer(voice.target), request.stop_strings)
    for tokens in voice.decoder.stream([request]):
        heard = [token.token for token in tokens if token.token not in request.stop_tokens]
        yield text.push(heard), tokens
    yield text.finish(), []
