"""A spec becomes a task: splits, what is held out, what is left out, and what is wrong with a spec."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from draftune import errors
from draftune.data import open_task
from draftune.data.task import Task


def write(path: Path, numbers: Sequence[int], **more: object) -> Path:
    lines = [json.dumps({"prompt": f"ask {i}", "completion": f"say {i}", **more}) for i in numbers]
    path.write_text("\n".join(lines) + "\n")
    return path


def answers(task: Task, split: str) -> list[int]:
    return [int(row.answer.split()[1]) for row in task.split(split)]


def test_unsplit_rows_are_shuffled_and_held_out(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.jsonl", range(100))
    task = open_task(str(rows))
    sizes = [len(task.split(name)) for name in ("train", "validation", "test")]
    assert sizes == [85, 5, 10]
    everything = answers(task, "train") + answers(task, "validation") + answers(task, "test")
    assert sorted(everything) == list(range(100))
    assert everything != list(range(100))
    again = open_task(str(rows))
    assert everything == answers(again, "train") + answers(again, "validation") + answers(again, "test")
    assert answers(open_task(str(rows), seed=1), "test") != answers(task, "test")
    assert task.notes == ("test and validation rows are taken from the end of the train rows, shuffled with seed 0",)
    assert (task.name, task.metric.name) == (str(rows), "rouge-l")
    assert task.test[0].id == f"rows.jsonl:{answers(task, 'test')[0] + 1}"


def test_held_out_rows_are_capped_and_training_is_the_same(tmp_path: Path) -> None:
    rows = str(write(tmp_path / "rows.jsonl", range(100)))
    capped, whole = open_task(rows, validation=2, test=3), open_task(rows)
    assert answers(capped, "train") == answers(whole, "train")
    assert answers(capped, "validation") == answers(whole, "validation")[:2]
    assert answers(capped, "test") == answers(whole, "test")[:3]


@pytest.mark.parametrize("validation", ["validation", "valid", "val", "dev"])
def test_a_folder_with_splits_keeps_their_order(tmp_path: Path, validation: str) -> None:
    write(tmp_path / "train-00000-of-00002.jsonl", range(3))
    write(tmp_path / "train-00001-of-00002.jsonl", range(3, 5))
    write(tmp_path / f"{validation}.jsonl", (10, 11))
    write(tmp_path / "test.jsonl", (20,))
    (tmp_path / "README.md").write_text("rows")
    task = open_task(str(tmp_path))
    assert answers(task, "train") == [0, 1, 2, 3, 4]
    assert (answers(task, "validation"), answers(task, "test"), task.notes) == ([10, 11], [20], ())


def test_a_missing_split_is_taken_from_the_end_of_train(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", range(40))
    write(tmp_path / "test.jsonl", range(100, 105))
    task = open_task(str(tmp_path))
    assert answers(task, "test") == [100, 101, 102, 103, 104]
    assert len(task.validation) == 2
    assert sorted(answers(task, "train") + answers(task, "validation")) == list(range(40))
    assert task.notes == ("validation rows are taken from the end of the train rows, shuffled with seed 0",)


def test_repeats_and_held_out_rows_that_are_train_rows_are_reported(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", [1, 2, 3, 3])
    write(tmp_path / "val.jsonl", [7])
    write(tmp_path / "test.jsonl", [2, 8, 3])
    assert open_task(str(tmp_path)).notes == (
        "1 train rows repeat an earlier one",
        "2 of 3 test rows are train rows too: test.jsonl:1, test.jsonl:3",
    )


def test_blank_rows_are_left_out_with_a_note(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", range(9))
    path.write_text(path.read_text() + '{"prompt": "ask", "completion": " "}\n{"prompt": "", "completion": "say"}\n')
    task = open_task(str(path))
    assert task.notes[0] == ("2 train rows without a prompt or an answer are left out: rows.jsonl:10, rows.jsonl:11")
    assert len(task.train) + len(task.validation) + len(task.test) == 9


def test_the_fingerprint_is_of_the_conversations(tmp_path: Path) -> None:
    one = open_task(str(write(tmp_path / "a.jsonl", range(20))))
    same = open_task(str(write(tmp_path / "b.jsonl", range(20), topic="x")))
    other = open_task(str(write(tmp_path / "c.jsonl", range(1, 21))))
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()


def test_a_mapping_reads_rows_of_any_fields(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"ask": f"q {i}", "reply": f"say {i}"}) + "\n" for i in range(9)))
    task = open_task(str(path), mapping={"prompt": "Now: {ask}", "answer": "reply"})
    assert task.train[0].prompt[0].content.startswith("Now: q ")


def refusal(kind: type[errors.DraftuneError], spec: Path | str, **settings: object) -> str:
    with pytest.raises(kind) as caught:
        open_task(str(spec), **settings)  # type: ignore[arg-type]
    return str(caught.value)


def test_what_is_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "rows.jsonl"
    assert refusal(errors.DataError, missing) == f"reading {missing}: there is no such file; check the path."
    assert "there is no such file" in refusal(errors.DataError, f"gsm8k:{missing}")
    assert "there is no such file" in refusal(errors.DataError, tmp_path / "folder")
    assert "there is no such file" in refusal(errors.DataError, "rows.csv")
    assert refusal(errors.DataError, tmp_path) == (
        f"reading {tmp_path}: the folder holds no file named train, as train.jsonl; "
        "name its files train, validation and test."
    )


@pytest.mark.parametrize(
    ("spec", "name", "near"),
    [
        ("gsm8", "gsm8", "gsm8k"),
        ("samsun:rows.jsonl", "samsun", "samsum"),
        ("builtin:sqll", "builtin:sqll", "builtin:sql"),
        ("builtin:note", "builtin:note", "builtin:notes"),
    ],
)
def test_an_unknown_name(spec: str, name: str, near: str) -> None:
    sentence = f"looking up the task {name!r}: no such name; did you mean {near!r}?"
    assert refusal(errors.UnknownNameError, spec) == sentence


def test_rows_without_the_needed_field(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", range(4))
    path.write_text(path.read_text() + '{"prompt": "ask"}\n')
    assert refusal(errors.DataError, path).startswith(
        "reading row 5 of rows.jsonl: no known shape fits its fields (prompt); "
    )
    assert refusal(errors.DataError, f"gsm8k:{path}").startswith(
        "reading row 1 of rows.jsonl: the field 'question' is missing (its fields are prompt, completion); "
    )


def test_too_few_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", range(2))
    assert refusal(errors.DataError, path) == (
        f"splitting the rows of {path}: 2 rows are too few to hold some out; "
        "give at least three rows, or a file for each split."
    )
    write(path, range(3))
    assert [len(open_task(str(path)).split(name)) for name in ("train", "validation", "test")] == [1, 1, 1]


def test_settings_that_cannot_be_honoured(tmp_path: Path) -> None:
    assert refusal(errors.ConfigError, "builtin:sql", mapping={"prompt": "a", "answer": "b"}) == (
        "opening the task 'builtin:sql': it has its own fields, so a mapping would be ignored; "
        "leave the mapping out, or give the file or hub id without the name."
    )
    assert refusal(errors.ConfigError, "builtin:sql", test=0) == (
        "holding rows out: test = 0; hold out at least one row."
    )
    write(tmp_path / "train.jsonl", range(3))
    (tmp_path / "train.csv").write_text("prompt,completion\na,b\n")
    assert "several kinds of train files (train.csv, train.jsonl); leave one kind" in refusal(
        errors.DataError, tmp_path
    )


def test_a_task_of_another_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point is a preset, or a function that makes a task and takes no path."""
    (tmp_path / "theirs.py").write_text(
        "from draftune.data.builtin_sql import task as RIDDLES\nfrom draftune.data.preset import SQL as QUERIES\n"
    )
    folder = tmp_path / "theirs-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    points = "riddles = theirs:RIDDLES\nqueries = theirs:QUERIES\n"
    (folder / "entry_points.txt").write_text(f"[draftune.tasks]\n{points}")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert len(open_task("riddles", validation=3, test=4).test) == 4
    assert refusal(errors.ConfigError, "riddles:rows.jsonl") == (
        "opening the task 'riddles': it is generated and reads no 'rows.jsonl'; leave the path out."
    )
    assert "there is no such file" in refusal(errors.DataError, "queries:rows.jsonl")


def test_an_unknown_split(tmp_path: Path) -> None:
    task = open_task(str(write(tmp_path / "rows.jsonl", range(9))))
    with pytest.raises(errors.UnknownNameError, match="no split 'tests'; did you mean 'test'"):
        task.split("tests")
