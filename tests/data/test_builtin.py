"""The generated tasks: seeded, varied, quick; SQL that runs; splits that share no schema, name or topic."""

from __future__ import annotations

import random
import re
import sqlite3
import time
from typing import Any

import pytest

from draftune.data import audit, builtin_notes, builtin_sql, notes_words, open_task, sql_schema
from draftune.data.metric import METRICS
from draftune.data.task import Task
from draftune.types import Row


@pytest.fixture(scope="module")
def sql() -> Task:
    return open_task("builtin:sql")


@pytest.fixture(scope="module")
def notes() -> Task:
    return open_task("builtin:notes")


def tables(row: Row) -> set[str]:
    return set(re.findall(r"CREATE TABLE (\w+)", row.prompt[0].content))


@pytest.mark.parametrize("task", ["sql", "notes"])
def test_sizes(task: str, request: pytest.FixtureRequest) -> None:
    opened = request.getfixturevalue(task)
    assert [len(opened.split(part)) for part in ("train", "validation", "test")] == [4000, 200, 200]
    assert len({row.id for row in (*opened.train, *opened.validation, *opened.test)}) == 4400


@pytest.mark.parametrize("kind", [builtin_sql, builtin_notes])
def test_a_seed_decides_the_rows_and_time_is_short(kind: Any) -> None:
    start = time.process_time()
    task = kind.task(train=400)
    assert time.process_time() - start < 2
    same, other, fewer = kind.task(train=400), kind.task(train=400, seed=1), kind.task(train=400, test=7)
    assert task.fingerprint() == same.fingerprint() != other.fingerprint()
    assert [row.messages for row in fewer.test] == [row.messages for row in task.test[:7]]


@pytest.mark.parametrize("task", ["sql", "notes"])
def test_variety(task: str, request: pytest.FixtureRequest) -> None:
    rows = request.getfixturevalue(task).train
    assert len({row.messages for row in rows}) > 3990
    assert len({row.answer for row in rows}) > 3900


@pytest.mark.parametrize("task", ["sql", "notes"])
def test_overlap_of_the_splits(task: str, request: pytest.FixtureRequest) -> None:
    opened = request.getfixturevalue(task)
    train = [audit.in_words(row) for row in opened.train]
    for name in ("validation", "test"):
        found = audit.overlap(train, [audit.in_words(row) for row in opened.split(name)])
        assert (found.same, found.same_prompt) == ((), ())
        assert found.ngram_share < 0.1


def test_schemas_of_the_splits_are_disjoint(sql: Task) -> None:
    names = {part: set().union(*map(tables, sql.split(part))) for part in ("train", "validation", "test")}
    assert not names["train"] & names["validation"]
    assert not names["train"] & names["test"]
    assert not names["validation"] & names["test"]
    assert len(names["train"]) > 1000
    for part in ("validation", "test"):  # their words, though, are known: what is new is how they are combined
        words = {word for name in names[part] for word in name.split("_")}
        assert words <= {word for name in names["train"] for word in name.split("_")}


def test_every_query_runs_and_finds_something(sql: Task) -> None:
    """On sqlite3 itself, without our guard."""
    for row in (*sql.train, *sql.validation, *sql.test):
        connection = sqlite3.connect(":memory:")
        connection.executescript(row.extra["database"])
        found = connection.execute(row.answer).fetchall()
        connection.close()
        assert found
        assert any(value is not None for value in found[0])
        assert row.prompt[0].content.startswith(row.extra["database"].split("; INSERT")[0])


@pytest.mark.parametrize(
    ("pattern", "least"),
    [
        (r" JOIN ", 0.2),
        (r" JOIN .* JOIN ", 0.02),
        (r" GROUP BY ", 0.1),
        (r" HAVING ", 0.03),
        (r" ORDER BY ", 0.1),
        (r" LIMIT ", 0.08),
        (r"(AVG|SUM|MIN|MAX|COUNT)\(", 0.3),
        (r"\(SELECT ", 0.1),
        (r" NOT IN \(", 0.01),
        (r" (AND|OR) ", 0.03),
        (r" LIKE ", 0.01),
        (r"COUNT\(DISTINCT", 0.01),
    ],
)
def test_every_construct_is_asked_for(sql: Task, pattern: str, least: float) -> None:
    for part in ("train", "test"):
        rows = sql.split(part)
        share = sum(bool(re.search(pattern, row.answer)) for row in rows) / len(rows)
        assert share >= least * (1 if part == "train" else 0.3)


def test_sorting_has_one_result(sql: Task) -> None:
    """No two rows of a table hold the same number or name, so LIMIT cuts the same rows on every engine."""
    schema = sql_schema.generate(random.Random(3), sql_schema.names("train"))
    for table in schema.tables:
        for column in table.of("number") + table.of("label"):
            assert len(set(table.values(column))) == len(table.rows)


def test_the_metric_tells_right_from_wrong(sql: Task) -> None:
    score = METRICS["sql-execution"]
    assert all(score(row, row.answer) == 1.0 for row in sql.test)
    assert all(score(row, f"```sql\n{row.answer};\n```") == 1.0 for row in sql.test[:20])
    others = [score(row, other.answer) for row, other in zip(sql.test, sql.test[4:], strict=False)]
    assert sum(others) == 0, "another schema's query fails"
    siblings = [score(row, other.answer) for row, other in zip(sql.test[::4], sql.test[1::4], strict=True)]
    assert sum(siblings) / len(siblings) < 0.2, "another question's query is wrong"


def test_names_and_topics_of_the_splits_are_disjoint(notes: Task) -> None:
    text = {
        part: "\n".join(message.content for row in notes.split(part) for message in row.messages)
        for part in ("train", "validation", "test")
    }
    words = {part: set(re.findall(r"\w+", said)) for part, said in text.items()}
    people = set(notes_words.NAMES.split())
    topics = [topic for pool in notes_words.TOPICS.values() for topic in pool.split(", ")]
    told = {part: {topic for topic in topics if topic in said} for part, said in text.items()}
    told = {
        part: {topic for topic in found if not any(topic in other for other in found - {topic})}
        for part, found in told.items()
    }
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        assert not words[one] & words[other] & people
        assert not told[one] & told[other]
    assert len(words["train"] & people) > 140


def test_a_note_tells_what_was_said(notes: Task) -> None:
    for row in notes.train[:300]:
        dialogue = row.prompt[0].content.split("\n\nSum up")[0]
        lines = dialogue.split("\n")
        assert 3 <= len(lines) <= 7
        speakers = {line.split(":")[0] for line in lines}
        assert len(speakers) == 2
        people = set(notes_words.NAMES.split()) & set(re.findall(r"\w+", row.answer))
        assert people <= set(re.findall(r"\w+", dialogue)), "nobody is named whom the dialogue does not name"
        assert people
        assert row.answer.endswith(".")
        assert "{" not in row.messages[0].content + row.answer
        assert not re.search(r"\ba [aeiou]\w+ (class|course|lesson|machine|cord)", row.answer)


def test_pools_are_shared_out_whole() -> None:
    for pool in (notes_words.NAMES.split(), *(words.split(", ") for words in notes_words.TOPICS.values())):
        parts = [builtin_notes.pool(pool, part) for part in ("train", "validation", "test")]
        assert sorted(sum(parts, start=[])) == sorted(pool)  # noqa: RUF017
        assert len(set(pool)) == len(pool)
        assert all(parts)
