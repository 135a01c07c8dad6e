"""One decoder's run over the prompts: the stopwatch around it, and what is made of its laps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

import torch

from draftune.bench import bootstrap, record
from draftune.bench.config import BenchConfig
from draftune.bench.record import Acceptance, Decoded, Difference, Identity, Interval, Lap, Rates, Seconds
from draftune.decode.clock import Clock
from draftune.decode.tally import Tally
from draftune.types import Completion, Request

Judge = Callable[[Completion], float]  # the task's metric on the row that a completion answers


class Speaker(Protocol):
    """What can be measured: a decoder, plain or drafted."""

    clock: Clock
    runner: Any  # a target.base.Runner, whose `kind` a report names

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """The finished requests, in their order."""
        ...


@dataclass
class Contender:
    """A decoder with what it has done so far."""

    name: str
    speaker: Speaker
    device: torch.device
    laps: list[Lap] = field(default_factory=list)
    completions: list[Completion] = field(default_factory=list)
    device_peak_bytes: int = 0

    def answer(self, requests: Sequence[Request]) -> None:
        """Answer one batch under the stopwatch and keep the lap."""
        on_gpu = self.device.type == "cuda"
        if on_gpu:
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
        before, start = dict(self.speaker.clock.seconds), time.perf_counter()
        completions = self.speaker.generate(requests)
        if on_gpu:
            torch.cuda.synchronize(self.device)
            self.device_peak_bytes = max(self.device_peak_bytes, torch.cuda.max_memory_allocated(self.device))
        spent = split(before, self.speaker.clock.seconds, time.perf_counter() - start)
        self.laps.append(lap(requests, completions, spent))
        self.completions.extend(completions)


def split(before: Mapping[str, float], after: Mapping[str, float], elapsed_s: float) -> Seconds:
    """The phases of a clock between two readings; `other` is what the stopwatch saw beyond them."""
    phases = {name: after[name] - before[name] for name in ("prefill", "draft", "verify")}
    return Seconds(**phases, other=max(0.0, elapsed_s - sum(phases.values())))


def lap(requests: Sequence[Request], completions: Sequence[Completion], seconds: Seconds) -> Lap:
    """The record of one batch."""
    return Lap(
        ids=tuple(request.id for request in requests),
        num_prompt_tokens=sum(len(request.prompt) for request in requests),
        num_tokens=sum(len(completion.tokens) for completion in completions),
        num_rounds=sum(len(completion.rounds) for completion in completions),
        seconds=seconds,
    )


def summarise(one: Contender, judge: Judge, settings: BenchConfig, plain: Contender | None = None) -> Decoded:
    """The record of a decoder; of a drafted one, compared with `plain`."""
    return Decoded(
        name=one.name,
        num_tokens=sum(lap.num_tokens for lap in one.laps),
        num_decoded=sum(lap.num_decoded for lap in one.laps),
        num_stopped=sum(completion.finish_reason == "stop" for completion in one.completions),
        seconds=sum((lap.seconds for lap in one.laps), Seconds()),
        rates=rates(one.laps),
        score=score(one.completions, judge, settings),
        device_peak_bytes=one.device_peak_bytes if one.device.type == "cuda" else None,
        laps=tuple(one.laps),
        acceptance=acceptance(one.completions, settings.num_drafts) if plain else None,
        identity=identity(plain.completions, one.completions) if plain and settings.same_text else None,
        speedup_decode=_speedup(one.laps, plain.laps, settings, decode_only=True) if plain else None,
        speedup_total=_speedup(one.laps, plain.laps, settings, decode_only=False) if plain else None,
    )


def score(completions: Sequence[Completion], judge: Judge, settings: BenchConfig) -> Interval:
    """The task's metric, averaged over prompts."""
    return bootstrap.mean([judge(completion) for completion in completions], num_resamples=settings.num_resamples)


def rates(laps: Sequence[Lap]) -> Rates:
    """Tokens per second over all laps, and the median over them; decode-only skips laps that decoded nothing."""
    decoding = [lap for lap in laps if lap.num_decoded and lap.seconds.decode > 0]
    paces = [lap.num_decoded / lap.seconds.decode for lap in decoding]
    return Rates(
        decode_tokens_per_s=_per_s([(lap.num_decoded, lap.seconds.decode) for lap in decoding]),
        decode_median_tokens_per_s=median(paces) if paces else None,
        total_tokens_per_s=_per_s([(lap.num_tokens, lap.seconds.total) for lap in laps]) or 0.0,
        total_median_tokens_per_s=median(lap.num_tokens / lap.seconds.total for lap in laps),
    )


def _per_s(pairs: Sequence[tuple[int, float]]) -> float | None:
    return sum(num for num, _ in pairs) / sum(seconds for _, seconds in pairs) if pairs else None


def _speedup(laps: Sequence[Lap], plain: Sequence[Lap], settings: BenchConfig, *, decode_only: bool) -> Interval | None:
    def paces(laps: Sequence[Lap]) -> list[bootstrap.Pace]:
        if decode_only:
            return [(lap.num_decoded, lap.seconds.decode) for lap in laps]
        return [(lap.num_tokens, lap.seconds.total) for lap in laps]

    return bootstrap.speedup(paces(laps), paces(plain), num_resamples=settings.num_resamples)


def acceptance(completions: Sequence[Completion], num_drafts: int) -> Acceptance:
    """The counts of all rounds, as wide as K even where no round drafted so many."""
    tally = Tally.of(completions)
    missing = num_drafts - len(tally.reached)
    return Acceptance(
        tau=_known(tally.tau),
        acceptance_rate=_known(tally.acceptance_rate),
        alpha=tuple(map(_known, tally.alpha)) + (None,) * missing,
        reached=tally.reached + (0,) * missing,
        histogram=tally.histogram + (0,) * (num_drafts + 1 - len(tally.histogram)),
        num_rounds=tally.num_rounds,
        num_drafted=tally.num_drafted,
        num_accepted=tally.num_accepted,
        num_emitted=tally.num_emitted,
    )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def identity(plain: Sequence[Completion], drafted: Sequence[Completion]) -> Identity:
    """On how many prompts the token ids agree, and where they first do not."""
    differences = [
        Difference(id=one.id, index=first_difference(wanted.tokens, one.tokens))
        for wanted, one in zip(plain, drafted, strict=True)
        if wanted.tokens != one.tokens
    ]
    return Identity(num_identical=len(plain) - len(differences), num_prompts=len(plain), differences=tuple(differences))


def first_difference(one: Sequence[int], other: Sequence[int]) -> int:
    """The first index where two token lists differ; where one only goes on, its first further token."""
    pairs = zip(one, other, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def answer(completion: Completion, drafter: str, question: str, pieces: Sequence[tuple[str, int]]) -> record.Answer:
    """An answer to be shown, without its empty pieces."""
    return record.Answer(
        id=completion.id,
        drafter=drafter,
        question=question,
        pieces=tuple(record.Piece(text=text, offset=offset) for text, offset in pieces if text),
    )
