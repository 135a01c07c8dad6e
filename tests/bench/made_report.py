"""Reports made up for tests of what is made of them: figures that a reader can follow by hand."""

from __future__ import annotations

import dataclasses

from draftune.bench import record
from draftune.bench.config import BenchConfig
from draftune.bench.record import Acceptance, Decoded, Interval, Seconds


def decoded(name: str, seconds: Seconds, acceptance: Acceptance | None = None, **more) -> Decoded:
    """Two prompts, 100 tokens, 98 of them by decoding."""
    half = Seconds(**{part: value / 2 for part, value in dataclasses.asdict(seconds).items()})
    laps = tuple(
        record.Lap(ids=(f"rows.jsonl:{n}",), num_prompt_tokens=30, num_tokens=50, num_rounds=20, seconds=half)
        for n in (3, 8)
    )
    rates = record.Rates(
        decode_tokens_per_s=98 / seconds.decode,
        decode_median_tokens_per_s=98 / seconds.decode,
        total_tokens_per_s=100 / seconds.total,
        total_median_tokens_per_s=100 / seconds.total,
    )
    score = Interval(value=0.5, low=0.0, high=1.0, count=2)
    fixed = {"num_tokens": 100, "num_decoded": 98, "num_stopped": 2, "score": score, "device_peak_bytes": None}
    return Decoded(name=name, seconds=seconds, rates=rates, laps=laps, acceptance=acceptance, **fixed, **more)


def acceptance(alpha: tuple[float | None, ...], histogram: tuple[int, ...]) -> Acceptance:
    num_accepted = sum(count * num for count, num in enumerate(histogram))
    rounds = sum(histogram)
    return Acceptance(
        tau=1 + num_accepted / rounds,
        acceptance_rate=num_accepted / (rounds * len(alpha)),
        alpha=alpha,
        reached=tuple(sum(histogram[k:]) for k in range(len(alpha))),
        histogram=histogram,
        num_rounds=rounds,
        num_drafted=rounds * len(alpha),
        num_accepted=num_accepted,
        num_emitted=num_accepted + rounds,
    )


def ratio(value: float) -> Interval:
    return Interval(value=value, low=value - 0.1, high=value + 0.1, count=2)


def report(**changes) -> record.Report:
    """semiar-lstm 1.9 times faster with one of two answers different, medusa slower, K = 3."""
    lstm = decoded(
        "semiar-lstm",
        Seconds(prefill=0.5, draft=0.4, verify=1.9, other=0.2),
        acceptance((0.8, 0.6, None), (6, 10, 24, 0)),
        identity=record.Identity(
            num_identical=1, num_prompts=2, differences=(record.Difference(id="rows.jsonl:8", index=17),)
        ),
        speedup_decode=ratio(2.08),
        speedup_total=ratio(1.9),
    )
    medusa = decoded(
        "medusa",
        Seconds(prefill=0.5, draft=0.3, verify=5.4, other=0.2),
        acceptance((0.4, 0.3, 0.1), (30, 8, 1, 1)),
        identity=record.Identity(num_identical=2, num_prompts=2),
        speedup_decode=ratio(0.88),
        speedup_total=ratio(0.89),
    )
    scores = {
        "base": Interval(value=0.1, low=0.0, high=0.2, count=2),
        "tuned": Interval(value=0.5, low=0.3, high=0.7, count=2),
        "joint": Interval(value=0.55, low=0.35, high=0.75, count=2),
    }
    pieces = (("SELECT", 0), (" *", 1), (" FROM", 2), (" <b>&t", 0), (" WHERE", 1))
    answer = record.Answer(
        id="rows.jsonl:3",
        drafter="semiar-lstm",
        question="<script>alert('who?')</script>",
        pieces=tuple(record.Piece(text=text, offset=offset) for text, offset in pieces),
    )
    machine = record.Machine(
        cpu="Some CPU 9000",
        num_cores=2,
        num_threads=2,
        memory_bytes=8 * 2**30,
        gpu=None,
        system="Linux x86_64, Python 3.11",
        versions={"torch": "2.13"},
    )
    made = record.Report(
        task="sql",
        metric="exact match",
        target="smollm2-135m",
        fingerprint="abc123",
        dtype="float32",
        device="cpu",
        settings=BenchConfig(num_drafts=3, num_prompts=2),
        num_prompts=2,
        plain=decoded("plain", Seconds(prefill=0.5, verify=5.0, other=0.2)),
        drafted={"semiar-lstm": lstm, "medusa": medusa},
        scores=scores,
        machine=machine,
        process_peak_bytes=2**30,
        seconds=14.0,
        date="2026-01-02T03:04:05+00:00",
        command="draftune bench bundle",
        git=None,
        answers=(answer,),
    )
    return dataclasses.replace(made, **changes)
