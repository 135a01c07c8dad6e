"""The page: one file, nothing from outside, nothing unescaped, no text unless asked."""

import json
import re
from html.parser import HTMLParser

import pytest

from draftune import errors
from draftune.bench import headline, plots, report
from draftune.bench.record import Report
from tests.bench import made_report


class Page(HTMLParser):
    """Every tag with its attributes, and whether they close in order."""

    VOID = frozenset({"meta", "link", "br", "img", "path", "use", "rect"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self._open.pop() == tag


@pytest.fixture(scope="module")
def pages() -> tuple[str, str]:
    made = made_report.report()
    return report.html(made), report.html(made, include_text=True)


def test_it_needs_nothing_from_outside(pages):
    for text in pages:
        names = {tag for tag, _ in Page(text).tags}
        assert not names & {"script", "link", "iframe", "img", "object"}
        values = [v for _, attrs in Page(text).tags for name, v in attrs.items() if not name.startswith("xmlns") and v]
        assert not [value for value in values if "//" in value]
        assert "@import" not in text
        targets = re.findall(r"url\(([^)]*)\)", text)
        assert targets
        assert all(target.startswith("#") for target in targets)


def test_every_id_is_there_once_and_every_reference_has_its_id(pages):
    tags = Page(pages[1]).tags
    ids = [attrs["id"] for _, attrs in tags if "id" in attrs]
    assert len(ids) == len(set(ids)) > 20
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', pages[1]))
    assert used
    assert used <= set(ids)


def test_plots_take_their_colours_from_the_page(pages):
    drawings = re.findall(r"<svg.*?</svg>", pages[0], flags=re.DOTALL)
    assert len(drawings) == 4
    for drawing in drawings:
        assert not re.findall(r"(?:fill|stroke): #\w+", drawing)
        assert "var(--ink)" in drawing
        assert re.search(r'<svg[^>]*viewBox="0 0 331.2 ', drawing)
        assert not re.search(r'<svg[^>]* width="', drawing)
    for variable in set(re.findall(r"var\((--\w+)\)", pages[0])):
        assert f"{variable}:" in pages[0]


def test_text_only_where_asked_and_escaped(pages):
    without, shown = pages
    assert "SELECT" not in without
    assert "alert" not in without
    assert "&lt;script&gt;alert(" in shown
    assert "&lt;b&gt;&amp;t" in shown
    assert "<b>" not in shown


def test_accepted_tokens_are_coloured_by_offset_and_target_tokens_are_plain(pages):
    answer = re.search(r'<p class="text">(.*?)</p>', pages[1], flags=re.DOTALL)
    assert answer
    found = re.findall(r'<span style="background:([^"]+)" title="draft (\d)">([^<]*)</span>', answer[1])
    assert [(offset, text) for _, offset, text in found] == [("1", " *"), ("2", " FROM"), ("1", " WHERE")]
    assert found[0][0] == found[2][0] != found[1][0]
    assert re.sub(r"<[^>]*>", "", answer[1]) == "SELECT * FROM &lt;b&gt;&amp;t WHERE"


def test_the_last_line_of_the_footer_is_the_headline_as_json(pages):
    footer = re.search(r"<footer>(.*)</footer>", pages[0], flags=re.DOTALL)
    assert footer
    last = footer[1].strip().splitlines()[-1]
    assert json.loads(re.sub(r"</?pre>", "", last)) == headline.figures(made_report.report())


def test_the_table_names_units_and_marks_the_best(pages):
    head = re.search(r"<thead>(.*?)</thead>", pages[0], flags=re.DOTALL)
    assert head
    for unit in ("tokens/s", "(×)", "ms a token", "tokens a round"):
        assert unit in head[1]
    assert '<tr class="best"><th scope="row">semiar-lstm</th>' in pages[0]
    assert "1.90 (1.80–2.00)" in pages[0]


def test_a_hostile_name_is_escaped():
    text = report.html(made_report.report(target="<img src=x>", task="</title>&", command="a && b > c"))
    assert "<img" not in text
    assert "a &amp;&amp; b &gt; c" in text
    Page(text)


def test_plain_alone_has_a_page():
    text = report.html(made_report.report(drafted={}))
    assert len(re.findall("<svg", text)) == 2
    Page(text)


def test_same_report_same_drawing():
    assert plots.svg(plots.alpha, made_report.report()) == plots.svg(plots.alpha, made_report.report())


@pytest.mark.parametrize("plot", [plots.alpha, plots.histogram, plots.time, plots.score])
def test_plots_can_be_pictures(plot):
    assert plots.draw(plot, made_report.report(), format="png", dpi=40).startswith(b"\x89PNG")


def test_it_is_written_beside_its_figures(tmp_path):
    path = report.write(made_report.report(), tmp_path / "report")
    assert path == tmp_path / "report" / "report.html"
    assert "SELECT" not in path.read_text()
    assert Report.from_json((tmp_path / "report" / "metrics.json").read_text()).task == "sql"


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.StorageError, match="writing the report to"):
        report.write(made_report.report(), tmp_path / "file" / "report")
