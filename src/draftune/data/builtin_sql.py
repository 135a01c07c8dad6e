"""`builtin:sql`: generated schemas, questions and SQL that truly runs; no network, no file."""

from __future__ import annotations

import random

from draftune.data import conversation, database, metric, sql_question, sql_schema
from draftune.data.task import Task
from draftune.types import Row

NUM_TRAIN = 4000
_PER_SCHEMA = 4  # questions
_INSTRUCTION = "Write the SQL query."


def task(*, seed: int = 0, train: int = NUM_TRAIN, validation: int = 200, test: int = 200) -> Task:
    """The task with that many rows. No table of one split stands in another; every answer gives at least one row."""
    sizes = {"train": train, "validation": validation, "test": test}
    splits = {name: rows(name, size, seed) for name, size in sizes.items()}
    notes = ("schemas of the held-out rows have tables that no training row has",)
    return Task(name="builtin:sql", metric=metric.METRICS["sql-execution"], notes=notes, **splits)


def rows(split: str, num_rows: int, seed: int) -> list[Row]:
    """Rows of one split; the first n are the same however many are asked for."""
    rng = random.Random(f"builtin:sql {split} {seed}")
    names = sql_schema.names(split)
    made: list[Row] = []
    while len(made) < num_rows:
        schema = sql_schema.generate(rng, names)
        ddl, script = schema.ddl, schema.script
        for question, sql in _pairs(rng, schema, script):
            messages = conversation.pair(f"{ddl}\n{question}\n{_INSTRUCTION}", sql)
            made.append(Row(id=f"{split}/{len(made)}", messages=messages, extra={"database": script}))
    return made[:num_rows]


def _pairs(rng: random.Random, schema: sql_schema.Schema, script: str) -> list[sql_question.Pair]:
    """Different questions whose SQL gives at least one row that holds a value."""
    found: dict[str, str] = {}
    with database.Database(script) as tables:
        for _ in range(4 * _PER_SCHEMA):
            question, sql = sql_question.write(rng, schema)
            result = tables.query(sql)
            if result is None:
                raise AssertionError(f"generated SQL does not run: {sql}")
            if result and any(value is not None for value in result[0]):
                found.setdefault(question, sql)
            if len(found) == _PER_SCHEMA:
                break
    return list(found.items())
