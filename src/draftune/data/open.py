"""Opening a task: a spec (built-in, preset, file, folder, hub id) becomes rows in three splits and a metric."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from draftune import errors
from draftune.data import conversation, hub, record, split
from draftune.data.metric import METRICS
from draftune.data.preset import Preset
from draftune.data.record import Record
from draftune.data.task import Task
from draftune.registry import Entry, Registry
from draftune.types import Row

TASKS = Registry(
    "task",
    group="draftune.tasks",
    builtin={
        "builtin:sql": Entry("draftune.data.builtin_sql:task", "generated: schema and question to SQL that runs"),
        "builtin:notes": Entry("draftune.data.builtin_notes:task", "generated: short dialogue to a one-sentence note"),
        "gsm8k": Entry(
            "draftune.data.preset:GSM8K", "school maths in steps, with marks of a calculator (openai/gsm8k, MIT)"
        ),
        "gsm8k-prose": Entry("draftune.data.preset:GSM8K_PROSE", "the same without the marks"),
        "samsum": Entry("draftune.data.preset:SAMSUM", "chats to summaries (knkarthick/samsum, CC BY-NC-ND 4.0)"),
        "sql": Entry("draftune.data.preset:SQL", "questions to SQL (b-mc2/sql-create-context, CC BY 4.0)"),
        "chatdoctor": Entry("draftune.data.preset:CHATDOCTOR", "medical answers (LinhDuong/chatdoctor-5k, Apache-2.0)"),
    },
)

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+(/[\w.-]+)?")


def open_task(
    spec: str, *, seed: int = 0, mapping: Mapping[str, str] | None = None, validation: int = 200, test: int = 200
) -> Task:
    """The task that `spec` names, with at most `validation` and `test` rows held out.

    spec: "builtin:sql", "builtin:notes"; a preset "gsm8k" (from the hub) or "gsm8k:PATH" (file or folder); the path of
    a .jsonl, .json, .csv or .parquet file or of a folder with train, validation and test files; or a hub data set
    "org/name" or "org/name/config". `mapping` names the fields of rows in no usual shape. Splits that are missing are
    held out by a shuffle with `seed`. Raises DataError for rows that cannot be read, UnknownNameError for an unknown
    name, ConfigError for a mapping that cannot be honoured.
    """
    holdout = split.Holdout(seed=seed, validation=validation, test=test)
    known = TASKS.entries()
    name, _, path = (spec, "", "") if spec in known else spec.partition(":")
    if name in known and (path or name == spec):
        return _named(name, path, mapping, holdout)
    read = conversation.mapped(mapping) if mapping else conversation.read
    return make(Preset(name=spec, metric="rouge-l", read=read), _generic(spec), holdout)


def _named(name: str, path: str, mapping: Mapping[str, str] | None, holdout: split.Holdout) -> Task:
    """A task of the table: a preset from the hub or from `path`, or a generated one."""
    found, doing = TASKS.load(name), f"opening the task {name!r}"
    if mapping:
        todo = "leave the mapping out, or give the file or hub id without the name"
        raise errors.ConfigError(doing=doing, met="it has its own fields, so a mapping would be ignored", todo=todo)
    if isinstance(found, Preset):
        splits = _local(Path(path).expanduser()) if path else hub.read(found.hub, found.hub_config)
        return make(found, splits, holdout)
    if path:
        raise errors.ConfigError(doing=doing, met=f"it is generated and reads no {path!r}", todo="leave the path out")
    return found(seed=holdout.seed, validation=holdout.validation, test=holdout.test)


def make(preset: Preset, splits: Mapping[str, Sequence[Record]], holdout: split.Holdout) -> Task:
    """The task made of records: their conversations, blank ones left out with a note, in three splits."""
    rows, notes = {}, []
    for name, records in splits.items():
        rows[name], blank = _rows(preset, records)
        if blank:
            first = ", ".join(blank[:3])
            notes.append(f"{len(blank)} {name} rows without a prompt or an answer are left out: {first}")
    rows, how = split.complete(rows, holdout, doing=f"splitting the rows of {preset.name}")
    notes += [how] if how else []
    notes += split.repeats(rows)
    return Task(name=preset.name, **rows, metric=METRICS[preset.metric], notes=tuple(notes))


def _generic(spec: str) -> dict[str, list[Record]]:
    """The records of a path or a hub id."""
    path, (name, colon, _) = Path(spec).expanduser(), spec.partition(":")
    if colon and name.isidentifier() and len(name) > 1 and not path.exists():  # not "C:\\rows.jsonl"
        TASKS.load(spec if name == "builtin" else name)  # raises UnknownNameError with the nearest name
    if path.exists() or path.suffix in record.SUFFIXES or spec.startswith((".", "/", "~")):
        return _local(path)
    if not _HUB_ID.fullmatch(spec):
        TASKS.load(spec)  # raises UnknownNameError with the nearest name
    owner, name, *config = spec.split("/")
    return hub.read(f"{owner}/{name}", *config)


def _local(path: Path) -> dict[str, list[Record]]:
    """The records of a file (one split, "train") or of a folder with a file or more for each split."""
    if not path.is_dir():
        return {"train": record.read(path)}
    files = split.find(path)
    if "train" in files:
        return {name: [found for file in paths for found in record.read(file)] for name, paths in files.items()}
    if (path / "data").is_dir() or (path / "README.md").is_file():
        return hub.read(str(path))
    met = "the folder holds no file named train, as train.jsonl"
    raise errors.DataError(doing=f"reading {path}", met=met, todo="name its files train, validation and test")


def _rows(preset: Preset, records: Sequence[Record]) -> tuple[list[Row], list[str]]:
    """The rows, and the ids of the blank ones left out."""
    rows, blank = [], []
    for found in records:
        messages = preset.read(found)
        if conversation.is_blank(messages):
            blank.append(found.id)
        else:
            rows.append(Row(id=found.id, messages=messages, extra=preset.extra(found)))
    return rows, blank
