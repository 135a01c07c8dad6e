"""Every drafter of the table has a page, and a row in the overview."""

from __future__ import annotations

import re

import pytest

from draftune.drafters.table import DRAFTERS
from tests.conftest import ROOT

SECTIONS = ["Idea", "Factorisation", "Cost", "Source", "Measured"]


@pytest.mark.parametrize("name", list(DRAFTERS.entries()))
def test_page(name: str) -> None:
    page = (ROOT / "docs" / "drafters" / f"{name}.md").read_text()
    title, *sections = [part.strip() for part in page.split("## ")]
    assert title == f"# `{name}`"
    assert [section.partition("\n")[0] for section in sections] == SECTIONS
    assert all(section.partition("\n")[2].strip() for section in sections), "none is empty"


def test_the_overview_names_each_once() -> None:
    overview = (ROOT / "docs" / "drafters.md").read_text()
    linked = re.findall(r"^\| \[`([a-z0-9-]+)`\]\(drafters/\1\.md\) \|", overview, re.MULTILINE)
    assert sorted(linked) == sorted(DRAFTERS.entries())
