"""Metrics score by hand-checked cases."""

from __future__ import annotations

import pytest

from draftune.data import metric
from draftune.data.metric import METRICS
from draftune.types import Message, Row

SHIPS = (
    "CREATE TABLE ships (name TEXT, speed INTEGER, mass REAL); "
    "INSERT INTO ships VALUES ('Echo', 20, 0.1), ('Lark', 35, 0.2), ('Iris', 5, 0.7)"
)


def row(answer: str, **extra: str) -> Row:
    return Row(
        id="a", messages=(Message(role="user", content="?"), Message(role="assistant", content=answer)), extra=extra
    )


@pytest.mark.parametrize(
    ("answer", "text", "score"),
    [
        ("the cat sat", "The cat, sat!", 1.0),
        ("a b c d", "a c x d", 3 / 4),  # a c d in common: 2 * 3 / (4 + 4)
        ("a b", "b a", 1 / 2),
        ("a b c", "x y", 0.0),
        ("a b c", "", 0.0),
        ("a", "a a a", 2 * 1 / (1 + 3)),
        ("été 2", "Été, 2", 1.0),
    ],
)
def test_rouge_l(answer: str, text: str, score: float) -> None:
    assert METRICS["rouge-l"](row(answer), text) == pytest.approx(score)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("so 3 + 4 = 7\n#### 7", 7),
        ("#### 7\nThat is 8.", 7),
        ("first #### 5, no: #### 7", 7),
        ("It is 1,234.50 dollars.", 1234.5),
        ("#### $1,000", 1000),
        ("from 10-2", 2),
        ("#### -3", -3),
        ("it is -0.5", -0.5),
        ("####", None),
        ("none at all", None),
        ("#### 72.", 72),
    ],
)
def test_final_number(text: str, number: float | None) -> None:
    assert metric.final_number(text) == number


def test_final_number_metric() -> None:
    score = METRICS["final-number"]
    assert [score(row("x\n#### 1,200"), text) for text in ("#### 1200.0", "1200", "#### 120", "", "####")] == [
        1,
        1,
        0,
        0,
        0,
    ]


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ('select  name\nfrom ships where city = "Oslo" and speed != 3;', 1),
        ("```sql\nSELECT name FROM ships WHERE city='Oslo' AND speed<>3\n```", 1),
        ("[SQL] SELECT name FROM ships WHERE city = 'Oslo' AND speed <> 3 [/SQL]", 1),
        ("SELECT name FROM ships WHERE city = 'oslo' AND speed <> 3", 0),
        ("SELECT name FROM ships WHERE city = 'Oslo' AND speed <> 30", 0),
        ("", 0),
    ],
)
def test_sql_match(text: str, score: float) -> None:
    assert METRICS["sql-match"](row("SELECT name FROM ships WHERE city = 'Oslo' AND speed <> 3"), text) == score


@pytest.mark.parametrize(
    ("answer", "text", "score"),
    [
        ("SELECT name FROM ships WHERE speed > 10", "select name from ships where speed >= 20", 1),
        ("SELECT name FROM ships WHERE speed > 10", "SELECT name FROM ships WHERE speed > 10 ORDER BY speed DESC", 1),
        ("SELECT name FROM ships ORDER BY speed", "SELECT name FROM ships ORDER BY speed DESC", 0),
        ("SELECT name FROM ships ORDER BY speed", "SELECT name FROM ships ORDER BY mass DESC", 0),
        ("SELECT name FROM ships WHERE speed IN (SELECT speed FROM ships ORDER BY speed LIMIT 2)",
         "SELECT name FROM ships WHERE speed < 30 ORDER BY speed", 1),  # sorted inside brackets only
        ("SELECT AVG(speed) FROM ships", "SELECT 20", 1),
        ("SELECT SUM(mass) FROM ships", "SELECT 1.0", 1),  # 0.1 + 0.2 + 0.7 in any order
        ("SELECT COUNT(*) FROM ships", "SELECT COUNT(*) FROM ships WHERE speed > 10", 0),
        ("SELECT name FROM ships", "SELECT name FROM ships UNION ALL SELECT name FROM ships", 0),
        ("SELECT name, speed FROM ships", "SELECT speed, name FROM ships", 0),
        ("SELECT name FROM ships", "SELECT nam FROM ships", 0),
        ("SELECT name FROM ships", "I do not know", 0),
        ("SELECT name FROM ships", "", 0),
        ("SELECT name FROM ships", "DROP TABLE ships", 0),
    ],
)  # fmt: skip
def test_sql_execution(answer: str, text: str, score: float) -> None:
    assert METRICS["sql-execution"](row(answer, database=SHIPS), text) == score


def test_names() -> None:
    assert {name: scorer.name for name, scorer in METRICS.items()} == {name: name for name in METRICS}
