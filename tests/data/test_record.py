"""Files become records, and what is wrong with a file is told with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftune import errors
from draftune.data import record

ROWS = [{"prompt": "a, b", "completion": 'say "x"\nand y'}, {"prompt": "ü", "completion": "\u2028"}]


def write(path: Path, kind: str) -> Path:
    """ROWS in a file of one kind."""
    if kind == "parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    elif kind == "csv":
        lines = [
            ",".join('"' + value.replace('"', '""') + '"' for value in (row["prompt"], row["completion"]))
            for row in ROWS
        ]
        path.write_text("\n".join(["prompt,completion", *lines]) + "\n", encoding="utf-8-sig", newline="")
    elif kind == "json":
        path.write_text(json.dumps(ROWS, indent=1))
    else:
        path.write_text("\n\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS) + "\r\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet"])
def test_every_kind_of_file_holds_the_same(tmp_path: Path, kind: str) -> None:
    records = record.read(write(tmp_path / f"rows.{kind}", kind))
    assert [dict(found.fields) for found in records] == ROWS
    second = 3 if kind == "jsonl" else 2  # a line number in .jsonl, where a blank line stands between
    assert [found.id for found in records] == [f"rows.{kind}:1", f"rows.{kind}:{second}"]


@pytest.mark.parametrize("text", ['{"data": [{"a": 1}]}', '{"a": 1}', '{"a": 1}\n{"a": 2}', '[{"a": 1}]'])
def test_json_in_its_usual_wrappings(tmp_path: Path, text: str) -> None:
    (tmp_path / "rows.json").write_text(text)
    assert record.read(tmp_path / "rows.json")[0].fields == {"a": 1}


def refusal(path: Path, content: str | bytes | None) -> str:
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(errors.DataError) as caught:
        record.read(path)
    return str(caught.value).replace(str(path), path.name)


def test_missing_file(tmp_path: Path) -> None:
    sentence = "reading rows.jsonl: there is no such file; check the path."
    assert refusal(tmp_path / "rows.jsonl", None) == sentence


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.csv"])
@pytest.mark.parametrize("content", ["", "\n \n"])
def test_empty_file(tmp_path: Path, name: str, content: str) -> None:
    sentence = f"reading {name}: the file holds no rows; give a file with at least one row."
    assert refusal(tmp_path / name, content if name != "rows.csv" else "a,b\n") == sentence


def test_wrong_line(tmp_path: Path) -> None:
    assert refusal(tmp_path / "rows.jsonl", '{"a": 1}\n\n{"a": \n') == (
        "reading rows.jsonl: line 3 is not JSON (Expecting value: line 1 column 7 (char 6)); "
        "correct the line or remove it."
    )
    assert refusal(tmp_path / "rows.json", '[{"a": 1},\n {"a" 2}]') == (
        "reading rows.json: line 2 is not JSON (Expecting ':' delimiter, column 7); correct the file."
    )
    assert "line 2 is not JSON" in refusal(tmp_path / "rows.json", '{"a": 1}\n{"a"\n')


def test_a_line_that_is_no_object(tmp_path: Path) -> None:
    sentence = "line 2 is not a JSON object; give one object per row."
    assert refusal(tmp_path / "rows.jsonl", '{"a": 1}\n[1]\n') == f"reading rows.jsonl: {sentence}"
    assert "row 1 is not a JSON object" in refusal(tmp_path / "rows.json", "[1]")
    assert "it holds no list of rows" in refusal(tmp_path / "rows.json", "3")


def test_wrong_csv(tmp_path: Path) -> None:
    sentence = "reading rows.csv: row 2 has another number of columns than the header; quote its commas or correct"
    assert refusal(tmp_path / "rows.csv", "a,b\n1,2\n1,2,3\n").startswith(sentence)
    assert refusal(tmp_path / "rows.csv", "a,b\n1,2\n1\n").startswith(sentence)
    assert "it is not CSV" in refusal(tmp_path / "rows.csv", "a,b\n1," + "x" * 200_000)


def test_wrong_bytes(tmp_path: Path) -> None:
    sentence = "reading rows.csv: byte 5 is not UTF-8; save the file as UTF-8."
    assert refusal(tmp_path / "rows.csv", b"a\nb\n1\xff") == sentence
    assert "it is not a whole parquet file" in refusal(tmp_path / "rows.parquet", b"PAR1 and no more")


def test_an_unknown_kind(tmp_path: Path) -> None:
    sentence = "the suffix '.txt' is unknown; give one of .jsonl, .json, .csv, .parquet."
    assert refusal(tmp_path / "rows.txt", "hello") == f"reading rows.txt: {sentence}"
