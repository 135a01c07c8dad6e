"""A report as one HTML file that needs nothing beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from draftune import storage
from draftune.bench import headline, plots, table
from draftune.bench.record import Decoded, Report

TEMPLATE = Path(__file__).with_name("report.html.jinja")


def html(report: Report, *, include_text: bool = False) -> str:
    """The page. Rows' text is in it only where `include_text` is set and the report holds answers."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    environment.undefined = jinja2.StrictUndefined
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    drawn = {name: Markup(plots.svg(plot, report)) for name, plot in _plots(report).items()}
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        report=report,
        sentence=headline.sentence(report),
        figures=headline.figures(report),
        plots=drawn,
        rows=[_row(one) for one in (report.plain, *report.drafted.values())],
        notes=list(table.notes(report)),
        answers=report.answers if include_text else (),
        variables={variable: hexadecimal for hexadecimal, variable in plots.VARIABLES.items()},
        offset_color=_offset_color(report.settings.num_drafts),
    )


def write(report: Report, folder: Path, *, include_text: bool = False) -> Path:
    """The path of `report.html`, written to `folder` beside `metrics.json`, each whole. Raises StorageError."""
    path, doing = folder / "report.html", f"writing the report to {folder}"
    page, figures = html(report, include_text=include_text), report.to_json(include_text=include_text)
    storage.write(folder / "metrics.json", figures.encode(), doing=doing)
    storage.write(path, page.encode(), doing=doing)
    return path


def _plots(report: Report) -> dict[str, Any]:
    drafted = {"alpha": plots.alpha, "histogram": plots.histogram} if report.drafted else {}
    return drafted | {"time": plots.time, "score": plots.score}


def _row(decoded: Decoded) -> dict[str, str]:
    """One line of the page's table, cells by column, units in the head."""
    acceptance = decoded.acceptance
    return {
        "decoder": decoded.name,
        "tokens/s, decode": table.number(decoded.rates.decode_tokens_per_s, "{:.1f}"),
        "tokens/s, whole": table.number(decoded.rates.total_tokens_per_s, "{:.1f}"),
        "speed-up, decode (×)": table.ratio(decoded.speedup_decode),
        "speed-up, whole (×)": table.ratio(decoded.speedup_total),
        "τ, tokens a round": table.number(acceptance and acceptance.tau, "{:.2f}"),
        "drafts accepted": table.number(acceptance and acceptance.acceptance_rate, "{:.0%}"),
        "time, ms a token": f"{plots.total(decoded):.1f}",
        "identical answers": headline.share(decoded.identity),
        "task score": table.score_range(decoded.score),
    }


def _offset_color(num_drafts: int) -> list[str]:
    """A background for each draft offset 1..K: green, through blue, to violet; readable on light and on dark."""
    step = 150 / max(1, num_drafts - 1)
    return [f"hsl({140 + step * k:.0f} 70% 50% / .32)" for k in range(num_drafts)]
