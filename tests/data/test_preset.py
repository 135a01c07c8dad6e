"""Presets: fields, cleaning, metric; on rows written here and, where they are at hand, on the real files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from draftune import errors
from draftune.data import hub, open_task, preset, split
from draftune.data.open import TASKS, make
from draftune.data.record import Record

SOLVE = "Solve it step by step and end with #### and the number."
RAW: dict[str, dict[str, Any]] = {
    "gsm8k": {"question": "Two and two? ", "answer": "It is 2+2=<<2+2=4>>4.\n#### 4"},
    "gsm8k-prose": {"question": "Two and two? ", "answer": "It is 2+2=<<2+2=4>>4.\n#### 4"},
    "samsum": {"id": "1", "dialogue": "Ann: Hi\r\nBo: Hello", "summary": "Ann greets\r\nBo. "},
    "sql": {
        "question": "How many?",
        "context": "CREATE TABLE t (a INTEGER)",
        "answer": "[SQL] SELECT COUNT(*) FROM t [/SQL]",
    },
    "chatdoctor": {"instruction": "Be a doctor.", "input": "It hurts. ", "output": " Rest.\n"},
}
CLEAN = {
    "gsm8k": (f"Two and two?\n\n{SOLVE}", "It is 2+2=<<2+2=4>>4.\n#### 4"),
    "gsm8k-prose": (f"Two and two?\n\n{SOLVE}", "It is 2+2=4.\n#### 4"),
    "samsum": ("Summarize this chat briefly.\n\nAnn: Hi\nBo: Hello", "Ann greets\nBo."),
    "sql": ("CREATE TABLE t (a INTEGER)\n\nWrite one SQL query: How many?", "SELECT COUNT(*) FROM t"),
    "chatdoctor": ("Answer as a doctor.\n\nIt hurts.", "Rest."),
}
METRIC = {
    "gsm8k": "final-number",
    "gsm8k-prose": "final-number",
    "samsum": "rouge-l",
    "sql": "sql-match",
    "chatdoctor": "rouge-l",
}
FILES = {  # under the folder of real data: where it lies, rows of train, validation and test
    "gsm8k": ("gsm8k", (7099, 200, 200)),
    "gsm8k-prose": ("gsm8k", (7099, 200, 200)),
    "samsum": ("samsum", (14731, 200, 200)),
    "sql": ("sql/sql_create_context_4000.jsonl", (3400, 200, 200)),
    "chatdoctor": ("chatdoctor/chatdoctor5k.json", (4634, 200, 200)),
}


@pytest.mark.parametrize("name", RAW)
def test_rows_are_cleaned(tmp_path: Path, name: str) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(RAW[name]) + "\n" for _ in range(5)))
    task = open_task(f"{name}:{tmp_path / 'rows.jsonl'}")
    row = task.train[0]
    assert (row.prompt[0].content, row.answer) == CLEAN[name]
    assert [message.role for message in row.messages] == ["user", "assistant"]
    assert (task.name, task.metric.name, task.metric(row, row.answer)) == (name, METRIC[name], 1.0)
    assert row.extra == ({"final": 4.0} if name.startswith("gsm8k") else {})


@pytest.mark.parametrize("name", RAW)
def test_a_missing_field_is_named(name: str) -> None:
    found = TASKS.load(name)
    needed = {
        "gsm8k": "answer",
        "gsm8k-prose": "answer",
        "samsum": "summary",
        "sql": "context",
        "chatdoctor": "output",
    }[name]
    fields = {key: value for key, value in RAW[name].items() if key != needed}
    with pytest.raises(errors.DataError, match=f"reading row 3 of a.json: the field '{needed}' is missing"):
        found.read(Record(source="a.json", number=3, fields=fields))


def test_a_row_without_a_dialogue_is_left_out() -> None:
    records = [Record(source="train", number=i, fields=RAW["samsum"] | {"id": i}) for i in range(1, 5)]
    records.append(Record(source="train", number=5, fields=RAW["samsum"] | {"dialogue": "\r\n"}))
    task = make(preset.SAMSUM, {"train": records}, split.Holdout())
    assert task.notes[0] == "1 train rows without a prompt or an answer are left out: train:5"


@pytest.mark.parametrize("name", FILES)
def test_real_files(shared_data: Path, name: str) -> None:
    place, sizes = FILES[name]
    task = open_task(f"{name}:{shared_data / place}")
    assert tuple(len(task.split(part)) for part in ("train", "validation", "test")) == sizes
    assert all(task.metric(row, row.answer) == 1.0 for row in task.test)
    text = "\n".join(message.content for row in task.train for message in row.messages)
    assert not re.search(r"\r|\[/?SQL\]", text), "cleaned"
    assert bool(re.search(r"<<[^<>]*=[^<>]*>>", text)) == (name == "gsm8k"), "marks as published, or none"
    assert sum("left out" in note for note in task.notes) == (name == "samsum")
    for part in ("validation", "test"):
        assert not {row.id for row in task.split(part)} & {row.id for row in task.train}


def laid_out(folder: Path, name: str, sizes: dict[str, int]) -> Path:
    """A folder as the hub holds a data set: parquet shards under data/ and a card."""
    import pyarrow
    from pyarrow import parquet

    (folder / "data").mkdir(parents=True)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    for part, size in sizes.items():
        rows = [RAW[name] | {"question": f"{part} {i}"} for i in range(size)]
        parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "data" / f"{part}-00000-of-00001.parquet")
    return folder


@pytest.fixture
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.mark.usefixtures("_own_cache")
def test_a_hub_data_set(tmp_path: Path) -> None:
    """A local folder in the hub's layout goes the same way as a name on the hub, through `datasets`."""
    folder = laid_out(tmp_path / "set", "gsm8k", {"train": 30, "test": 4})
    task = make(preset.GSM8K, hub.read(str(folder)), split.Holdout())
    assert (len(task.train), len(task.validation), len(task.test)) == (28, 2, 4)
    assert task.test[1].id == "test:2"
    assert task.test[1].prompt[0].content.startswith("test 1\n\nSolve")
    generic = open_task(str(folder), mapping={"prompt": "question", "answer": "answer"})
    assert [row.prompt[0].content for row in generic.test] == [f"test {i}" for i in range(4)]


@pytest.mark.usefixtures("_own_cache")
def test_a_hub_data_set_without_train_rows(tmp_path: Path) -> None:
    folder = laid_out(tmp_path / "set", "gsm8k", {"test": 4})
    with pytest.raises(errors.DataError, match=r"it has no train split \(its splits are test\); give a local file"):
        hub.read(str(folder))


@pytest.mark.parametrize("spec", ["gsm8k", "someone/something", "someone/something/main"])
def test_a_hub_that_cannot_be_reached(spec: str) -> None:
    source = "openai/gsm8k" if spec == "gsm8k" else "someone/something"
    with pytest.raises(errors.DataError) as caught:
        open_task(spec)
    assert str(caught.value).startswith(f"loading the hub data set {source!r}: ")
    assert str(caught.value).endswith("; check the name and the connection, or give a local file.")
