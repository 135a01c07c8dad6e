"""A report as a table for people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from draftune.bench import headline
from draftune.bench.record import Interval, Report


def render(report: Report) -> RenderableType:
    """The headline; tables of speed, time and α_k; lines about differences, scores and the machine. Fits 80 columns."""
    parts: list[RenderableType] = [Text(headline.sentence(report), style="bold"), speed(report), spent(report)]
    if report.drafted:
        parts.append(alphas(report))
    return Group(*parts, *(Text(line, overflow="fold") for line in notes(report)))


def speed(report: Report) -> Table:
    """One line a decoder: tokens per second, times faster than plain, τ, identity."""
    title = (
        f"{report.task}: {report.num_prompts} held-out prompts, {report.dtype}, {report.device}, {report.runner} runner"
    )
    table = _table(title, "decoder", "decode\ntok/s", "whole\ntok/s", "decode\n×", "whole\n×", "τ", "identical")
    for one in (report.plain, *report.drafted.values()):
        rates, acceptance = one.rates, one.acceptance
        table.add_row(
            one.name,
            number(rates.decode_tokens_per_s, "{:.1f}"),
            number(rates.total_tokens_per_s, "{:.1f}"),
            number(one.speedup_decode and one.speedup_decode.value, "{:.2f}"),
            ratio(one.speedup_total),
            number(acceptance and acceptance.tau, "{:.2f}"),
            headline.share(one.identity),
        )
    return table


def spent(report: Report) -> Table:
    """One line a decoder: milliseconds per emitted token by what they were spent on, and the score of its answers."""
    table = _table("milliseconds per token", "decoder", "prefill", "draft", "verify", "other", "all", report.metric)
    for one in (report.plain, *report.drafted.values()):
        seconds = one.seconds
        parts = (seconds.prefill, seconds.draft, seconds.verify, seconds.other, seconds.total)
        cells = (f"{1000 * part / max(1, one.num_tokens):.1f}" for part in parts)
        table.add_row(one.name, *cells, f"{one.score.value:.3f}")
    return table


def alphas(report: Report) -> Table:
    """α_k of each drafter: how often draft k is accepted where all before it were."""
    offsets = range(1, report.settings.num_drafts + 1)
    table = _table("α_k: draft k accepted, given that all before it were", "drafter", *map(str, offsets), "all drafts")
    for one in report.drafted.values():
        if one.acceptance is not None:
            rates = (number(alpha, "{:.2f}") for alpha in one.acceptance.alpha)
            table.add_row(one.name, *rates, number(one.acceptance.acceptance_rate, "{:.0%}"))
    return table


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right")
    return table


def number(value: float | None, form: str) -> str:
    """The value in the given form, or a dash."""
    return "–" if value is None else form.format(value)


def ratio(interval: Interval | None) -> str:
    """ "1.90 (1.78–2.03)": the ratio and its 95 % interval."""
    return "–" if interval is None else f"{interval.value:.2f} ({interval.low:.2f}–{interval.high:.2f})"


def notes(report: Report) -> Iterator[str]:
    """The lines under the tables."""
    yield from differences(report)
    labelled = (f"{headline.LABELS.get(name, name)} {score_range(score)}" for name, score in report.scores.items())
    yield f"{report.metric}, with its 95 % interval: " + ", ".join(labelled)
    yield from (f"About the rows: {note}" for note in report.notes)
    yield f"Peak memory {memory(report)}. {report.machine.cpu}, {report.machine.num_cores} cores" + (
        f", {report.machine.gpu}" if report.machine.gpu else ""
    )


def differences(report: Report, most: int = 8) -> Iterator[str]:
    """Where drafted answers leave the plain ones, the first `most` places; drafters that part there stand together."""
    places: dict[tuple[str, int], list[str]] = {}
    for name, decoded in report.drafted.items():
        for one in decoded.identity.differences if decoded.identity else ():
            places.setdefault((one.id, one.index), []).append(name)
    for (row, index), names in list(places.items())[:most]:
        yield f"{row} differs from token {index} on with {', '.join(names)}"
    if len(places) > most:
        yield f"and at {len(places) - most} more places"


def score_range(score: Interval) -> str:
    """ "0.625 (0.475–0.775)"."""
    return f"{score.value:.3f} ({score.low:.3f}–{score.high:.3f})"


def memory(report: Report) -> str:
    """The peak of the process, and of the accelerator where there is one."""
    text = f"{report.process_peak_bytes / 2**30:.2f} GiB"
    peaks = [one.device_peak_bytes for one in (report.plain, *report.drafted.values()) if one.device_peak_bytes]
    return text + (f", on the accelerator {max(peaks) / 2**30:.2f} GiB" if peaks else "")
