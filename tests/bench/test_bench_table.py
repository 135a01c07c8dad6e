"""The table for people: fits a terminal, shows what was found."""

import dataclasses
import io

from rich.console import Console

from draftune.bench import record, table
from tests.bench import made_report


def printed(report) -> str:
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(table.render(report))
    return console.file.getvalue()


def line(text: str, start: str, number: int = 0) -> list[str]:
    return [one for one in text.splitlines() if one.strip().startswith(start)][number].split()


def test_every_figure_is_shown_whole_in_80_columns():
    text = printed(made_report.report())
    assert "…" not in text
    assert line(text, "semiar-lstm", 1) == ["semiar-lstm", "39.2", "33.3", "2.08", "1.90", "(1.80–2.00)", "2.45", "1/2"]
    assert line(text, "plain") == ["plain", "18.8", "17.5", "–", "–", "–", "–"]
    assert line(text, "semiar-lstm", 2) == ["semiar-lstm", "5.0", "4.0", "19.0", "2.0", "30.0", "0.500"]
    assert line(text, "medusa", 2) == ["medusa", "0.40", "0.30", "0.10", "11%"]


def test_differences_and_scores_are_told():
    text = " ".join(printed(made_report.report()).split())
    assert "rows.jsonl:8 differs from token 17 on with semiar-lstm" in text
    assert "base 0.100 (0.000–0.200), tuned 0.500 (0.300–0.700), jointly tuned 0.550 (0.350–0.750)" in text
    assert "Peak memory 1.00 GiB. Some CPU 9000, 2 cores" in text


def test_many_differences_are_told_by_place_and_counted():
    report = made_report.report()
    places = tuple(record.Difference(id=f"r{n}", index=n) for n in range(12))
    identity = record.Identity(num_identical=0, num_prompts=12, differences=places)
    drafted = {name: dataclasses.replace(one, identity=identity) for name, one in report.drafted.items()}
    text = printed(dataclasses.replace(report, drafted=drafted))
    assert "r7 differs from token 7 on with semiar-lstm, medusa" in text
    assert "r8 differs" not in text
    assert "and at 4 more places" in text


def test_plain_alone():
    text = printed(made_report.report(drafted={}))
    assert "α_k" not in text
    assert line(text, "plain")[1] == "18.8"
