"""The plots of a report, as figures and as SVG that takes its colours from the page around it."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from draftune.bench import headline
from draftune.bench.record import PLAIN, Decoded, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE_IN = (4.6, 3.0)  # small, so that its text stays readable at the width of a phone
INK, FAINT = "#15181c", "#c9ced6"
SERIES = ("#8a919c", "#0f7fb8", "#d9651b", "#1c9a6c", "#b0479f", "#b8860b", "#5a63c8", "#a33b3b")  # plain is first
PARTS = {"prefill": "#8a919c", "draft": "#d9651b", "verify": "#0f7fb8", "other": "#b0479f"}
SCORES = {"base": SERIES[0], "tuned": SERIES[6], "jointly tuned": SERIES[3]}
VARIABLES = {INK: "--ink", FAINT: "--faint"} | {color: f"--s{index}" for index, color in enumerate(SERIES)}


def alpha(report: Report) -> Figure:
    """α_k by k, one line a drafter."""
    figure, axes = _figure()
    for name, decoded in report.drafted.items():
        if decoded.acceptance is None:
            continue
        rates = [math.nan if rate is None else rate for rate in decoded.acceptance.alpha]
        axes.plot(range(1, len(rates) + 1), rates, marker="o", markersize=5, color=color(report, name), label=name)
    axes.set_ylim(0, 1.02)
    axes.set_xticks(range(1, report.settings.num_drafts + 1))
    axes.set_xlabel("draft k")
    axes.set_ylabel("α_k, share accepted")
    _legend(figure, axes)
    return figure


def histogram(report: Report) -> Figure:
    """Share of rounds by number of accepted drafts, one bar a drafter."""
    figure, axes = _figure()
    shown = {name: one.acceptance for name, one in report.drafted.items() if one.acceptance}
    width = 0.8 / max(1, len(shown))
    for index, (name, found) in enumerate(shown.items()):
        left = -0.4 + width * (index + 0.5)
        places = [num + left for num in range(len(found.histogram))]
        shares = [num / max(1, found.num_rounds) for num in found.histogram]
        axes.bar(places, shares, width=width * 0.92, color=color(report, name), label=name)
    axes.set_xticks(range(report.settings.num_drafts + 1))
    axes.set_xlabel("drafts accepted in a round")
    axes.set_ylabel("share of rounds")
    _legend(figure, axes)
    return figure


def time(report: Report) -> Figure:
    """Milliseconds per emitted token, stacked by what they were spent on."""
    decoders = (report.plain, *report.drafted.values())
    figure, axes = _figure(height_in=1.5 + 0.42 * len(decoders))
    names = [one.name for one in decoders]
    left = [0.0] * len(decoders)
    for part, part_color in PARTS.items():
        spent = [1000 * getattr(one.seconds, part) / max(1, one.num_tokens) for one in decoders]
        axes.barh(names, spent, left=left, height=0.62, color=part_color, label=part)
        left = [start + more for start, more in zip(left, spent, strict=True)]
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    for place, end in enumerate(left):
        axes.annotate(f"{end:.0f}", (end, place), xytext=(4, 0), textcoords="offset points", va="center")
    axes.margins(x=0.08)
    axes.set_xlabel("milliseconds per token")
    _legend(figure, axes, num_columns=4)
    return figure


def score(report: Report) -> Figure:
    """The task's score of base, tuned and jointly tuned model, with 95 % intervals."""
    known = {label: report.scores[name] for name, label in headline.LABELS.items() if name in report.scores}
    known |= {name: found for name, found in report.scores.items() if name not in headline.LABELS}
    figure, axes = _figure()
    for index, (label, found) in enumerate(known.items()):
        axes.bar(label, found.value, width=0.55, color=SCORES.get(label, SERIES[5]))
        spread = [[max(0.0, found.value - found.low)], [max(0.0, found.high - found.value)]]
        axes.errorbar(label, found.value, yerr=spread, color=INK, capsize=4, linewidth=1.2)
        axes.annotate(f"{found.value:.2f}", (index + 0.06, found.value), xytext=(4, 3), textcoords="offset points")
    axes.set_ylim(0, 1.08)
    axes.set_xlim(-0.6, max(1, len(known)) - 0.4)
    axes.set_ylabel(report.metric)
    return figure


def color(report: Report, name: str) -> str:
    """The colour that a decoder has in every plot."""
    if name == PLAIN:
        return SERIES[0]
    return SERIES[1 + list(report.drafted).index(name) % (len(SERIES) - 1)]


def total(decoded: Decoded) -> float:
    """Milliseconds per emitted token, all parts together."""
    return 1000 * decoded.seconds.total / max(1, decoded.num_tokens)


def _figure(height_in: float = SIZE_IN[1]) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(SIZE_IN[0], height_in), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors=INK, length=0)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _legend(figure: Figure, axes: Axes, num_columns: int = 3) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        columns = min(num_columns, len(handles))
        style = {"frameon": False, "handlelength": 1.2, "columnspacing": 1.2, "labelcolor": INK}
        figure.legend(handles, labels, loc="outside upper left", ncols=columns, **style)


def draw(plot: Callable[[Report], Figure], report: Report, **save: object) -> bytes:
    """The file of a plot: `draw(alpha, report, format="png", dpi=200)`."""
    import matplotlib

    style: Any = {"font.size": 10, "text.color": INK, "axes.labelcolor": INK, "svg.fonttype": "none"}
    with matplotlib.rc_context({**style, "svg.hashsalt": plot.__name__}):
        figure = plot(report)
        stream = io.BytesIO()
        figure.savefig(stream, **save)  # pyright: ignore[reportArgumentType]
    return stream.getvalue()


def svg(plot: Callable[[Report], Figure], report: Report) -> str:
    """An `<svg>` element to stand inside a page, as wide as its place allows.

    Colours become the page's variables, so that they follow its light or dark scheme; ids get the plot's name
    before them, so that several plots can share a page; nothing in it points outside.
    """
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    text = draw(plot, report, format="svg", metadata=nothing).decode()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)  # its rule for * would reach the whole page
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    prefix = plot.__name__
    text = re.sub(r'id="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'((?:xlink:)?href="|url\()#', rf"\1#{prefix}-", text)
    for found, variable in VARIABLES.items():
        text = text.replace(found, f"var({variable})")
    return text
