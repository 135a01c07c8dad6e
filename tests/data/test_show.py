"""`draftune data show`, and the page on data, executed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from draftune.cli import app
from draftune.data import conversation, open_task, split
from draftune.data.open import make
from draftune.data.record import Record
from tests.conftest import ROOT
from tests.data import families


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Ten rows, with what a terminal might take for colours or a picture."""
    fields = [{"prompt": f"What is {i}? [bold]", "completion": f":ship: say {i}"} for i in range(10)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in fields))
    return tmp_path / "rows.jsonl"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    families.tokenizer("chatml").save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def show(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["data", "show", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def test_rows_as_text(rows: Path) -> None:
    task = open_task(str(rows))
    first = task.train[0]
    number = first.answer.split()[-1]
    assert show(rows, "--rows", 1) == (
        f"{first.id}\nuser: What is {number}? [bold]\nassistant: ⟦:ship: say {number}⟧\n\n"
        f"{rows}: train 8, validation 1, test 1; scored by rouge-l; data {task.fingerprint()}\n"
        "  test and validation rows are taken from the end of the train rows, shuffled with seed 0\n"
        "  validation against train, in words: 0.0% of the held-out answers' 8-grams occur in training answers\n"
        "  test against train, in words: 0.0% of the held-out answers' 8-grams occur in training answers\n"
    )


def test_rows_as_tokens(rows: Path, model: Path) -> None:
    said = show(rows, "--model", model, "--rows", 2)
    assert said.count("assistant\n⟦:ship: say ") == 2
    assert said.count("<|im_end|>⟧") == 2
    assert re.search(r"^rows\.jsonl:\d+ \(\d+ tokens, \d+ learned\)$", said, re.MULTILINE)
    assert re.search(
        r"^  train: 8 examples, \d+ tokens, of which \d+ \(\d+%\) are learned; the longest has", said, re.M
    )
    assert re.search(r"^  test against train: .* 8-grams occur in training answers$", said, re.M)


def test_a_held_out_split_and_its_overlap(rows: Path, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "train.jsonl").write_text(rows.read_text())
    (folder / "test.jsonl").write_text(rows.read_text().splitlines()[0] + "\n")
    said = show(folder, "--model", model, "--split", "test")
    assert "1 of 1 test rows are train rows too: test.jsonl:1" in said
    assert "test against train: 1 of 1 held-out rows are training rows too: test.jsonl:1" in said
    assert "test: 1 examples" in said
    assert "validation against train" not in said


def test_truncation_is_told(rows: Path, model: Path) -> None:
    rows.write_text(rows.read_text() + json.dumps({"prompt": "long " * 90, "completion": "x"}) + "\n")
    said = show(rows, "--model", model, "--max-length", 90, "--rows", 0, "--seed", 1)
    assert "exceed 90 tokens and are left out: rows.jsonl:11" in said


def test_other_fields(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("ask,reply\n" + "".join(f"q{i},a{i}\n" for i in range(5)))
    assert re.search(
        r"user: q\d\nassistant: ⟦a\d⟧", show(tmp_path / "rows.csv", "--field", "prompt=ask", "--field", "answer=reply")
    )


def test_what_is_wrong_is_one_sentence(rows: Path, tmp_path: Path) -> None:
    assert show("gsm8", code=2) == "error: looking up the task 'gsm8': no such name; did you mean 'gsm8k'?\n"
    assert "no split 'tran'; did you mean 'train'?" in show(rows, "--split", "tran", code=2)
    assert f"loading the tokenizer of '{tmp_path}': " in show(rows, "--model", tmp_path, code=2)
    bare = families.tokenizer("chatml")
    bare.chat_template = None
    bare.save_pretrained(tmp_path / "bare")
    assert "it has none, so a conversation cannot become tokens" in show(rows, "--model", tmp_path / "bare", code=2)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    fields = [{"schema": f"t{i}", "ask": "how many?", "reply": f"select {i}"} for i in range(20)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in fields))
    names = {"tokenizer": families.tokenizer("chatml")}
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)  # the blocks of one page are one program
    said = capsys.readouterr().out
    assert said.startswith("17 1 2 rouge-l\n")
    assert "17 examples, " in said
    records = [Record(source="a", number=i, fields={"dish": f"soup {i}", "steps": "boil "}) for i in range(1, 5)]
    task = make(names["RECIPES"], {"train": records}, split.Holdout())
    assert task.train[0].answer == "boil"
    assert conversation.is_blank(task.train[0].messages) is False
