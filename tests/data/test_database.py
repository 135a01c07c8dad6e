"""A stranger's SQL reads and does nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftune.data import database
from draftune.data.database import Database

SCRIPT = "CREATE TABLE t (a INTEGER, b TEXT); INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'x')"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"


@pytest.fixture
def tables() -> Iterator[Database]:
    with Database(SCRIPT) as made:
        yield made


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT b, COUNT(*) FROM t GROUP BY b ORDER BY b", [("x", 2), ("y", 1)]),
        ("SELECT AVG(a), UPPER(b) FROM t WHERE b LIKE 'y%'", [(2.0, "Y")]),
        ("SELECT a FROM t WHERE a = (SELECT MAX(a) FROM t);", [(3,)]),
        ("SELECT t1.a FROM t AS t1 JOIN t AS t2 ON t1.a = t2.a + 1 WHERE t2.b = 'y'", [(3,)]),
        (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n",
            [(1,), (2,), (3,)],
        ),
        ("SELECT CAST(a AS TEXT) FROM t LIMIT 1", [("1",)]),
    ],
)
def test_reading(tables: Database, sql: str, rows: list[tuple[object, ...]]) -> None:
    assert tables.query(sql) == rows


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE t",
        "DELETE FROM t",
        "UPDATE t SET a = 9",
        "INSERT INTO t VALUES (4, 'z')",
        "CREATE TABLE u (a)",
        "CREATE TEMP TABLE u AS SELECT * FROM t",
        "PRAGMA user_version = 3",
        "PRAGMA database_list",
        "BEGIN",
        "VACUUM",
        "SELECT a FROM t; DROP TABLE t",
        "EXPLAIN DROP TABLE t",
        "SELECT load_extension('x')",
        "SELECT hex(zeroblob(1000000000))",
        "SELECT randomblob(1000000000)",
        "SELECT printf('%1000000000d', 1)",
        "SELECT '" + "x" * 20_000 + "'",
        "SELECT a FROM t WHERE",
        "SELECT \x00",
        "SELECT '\ud800'",
        "",
    ],
)
def test_everything_else_is_refused_and_leaves_the_tables(tables: Database, sql: str) -> None:
    assert not tables.query(sql)
    assert tables.query("SELECT COUNT(*), SUM(a) FROM t") == [(3, 6)]


def test_no_file_is_made(tables: Database, tmp_path: Path) -> None:
    for sql in (f"ATTACH '{tmp_path / 'a.db'}' AS other", f"VACUUM INTO '{tmp_path / 'b.db'}'"):
        assert tables.query(sql) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "sql",
    [
        ENDLESS,
        "SELECT COUNT(*) FROM " + ", ".join(f"t AS t{i}" for i in range(20)),
        "WITH RECURSIVE n(i, s) AS (SELECT 1, 'x' UNION ALL SELECT i + 1, s || s FROM n) SELECT MAX(i) FROM n",
    ],
)
def test_what_does_not_end_is_ended(tables: Database, sql: str) -> None:
    start = time.monotonic()
    assert tables.query(sql) is None
    assert time.monotonic() - start < 5
    assert tables.query("SELECT 1") == [(1,)]


def test_the_number_of_steps_decides_not_the_machine() -> None:
    with Database(SCRIPT, max_seconds=600) as patient:
        start = time.monotonic()
        assert patient.query(ENDLESS) is None
        assert time.monotonic() - start < 5


def test_few_steps_that_take_long_are_ended_by_the_clock() -> None:
    slow = f"SELECT SUM(INSTR('{'a' * 5000}', '{'a' * 3000}' || t0.b)) FROM "
    with Database(SCRIPT, max_seconds=0.1) as hasty:
        start = time.monotonic()
        assert hasty.query(slow + ", ".join(f"t AS t{i}" for i in range(11))) is None  # 177,147 rows: minutes
        assert time.monotonic() - start < 5
        assert hasty.query(slow + "t AS t0") == [(0,)]


def test_too_many_rows(tables: Database) -> None:
    many = ", ".join(f"t AS t{i}" for i in range(9))  # 3 ** 9 = 19,683
    assert tables.query(f"SELECT 1 FROM {many}") is None
    assert len(tables.query(f"SELECT 1 FROM {many} LIMIT 10000") or ()) == 10_000


def test_same() -> None:
    assert database.same([(1, "a"), (2, "b")], [(2.0, "b"), (1, "a")], ordered=False)
    assert not database.same([(1, "a"), (2, "b")], [(2, "b"), (1, "a")], ordered=True)
    assert database.same([(1 / 3,)], [(0.33333334,)], ordered=True)
    assert not database.same([(1,)], [(1,), (1,)], ordered=False)
    assert not database.same([(None,)], [(0,)], ordered=False)
    assert database.same([], [], ordered=True)
