"""A generated schema: one to three tables with their rows, linked by id columns, in the names of one split."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from draftune.data import sql_words

Value = int | str


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column; `words` is how a question calls it."""

    name: str
    kind: Literal["id", "link", "label", "number", "text"]

    @property
    def words(self) -> str:
        """ "top speed" for top_speed."""
        return self.name.replace("_", " ")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table and what stands in it."""

    name: str  # "harbor_ships"
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]

    @property
    def words(self) -> str:
        """ "harbor ships"."""
        return self.name.replace("_", " ")

    @property
    def singular(self) -> str:
        """ "harbor ship"."""
        return self.words.removesuffix("s")

    def of(self, kind: str) -> list[Column]:
        """The columns of one kind."""
        return [column for column in self.columns if column.kind == kind]

    def values(self, column: Column) -> list[Value]:
        """The values of one column, row by row."""
        place = self.columns.index(column)
        return [row[place] for row in self.rows]

    @property
    def label(self) -> Column:
        """The column that names a row."""
        return self.of("label")[0]


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Linked tables, the parent before its child: tables[1] has a link to tables[0], tables[2] one to tables[1]."""

    tables: tuple[Table, ...]

    @property
    def ddl(self) -> str:
        """The CREATE TABLE statements, as a prompt shows them."""
        return "; ".join(f"CREATE TABLE {table.name} ({_columns(table)})" for table in self.tables)

    @property
    def script(self) -> str:
        """SQL that makes the tables and fills them."""
        inserts = [
            f"INSERT INTO {table.name} VALUES " + ", ".join(f"({', '.join(map(literal, row))})" for row in table.rows)
            for table in self.tables
        ]
        return "; ".join([self.ddl, *inserts])


def literal(value: Value) -> str:
    """A value as SQL writes it."""
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def names(split: str) -> list[tuple[str, str, int]]:
    """(modifier, noun, kind number) of every table of one split; no pair is in two of them, every word is in all."""
    wanted = {"train": range(8), "validation": (8,), "test": (9,)}[split]
    numbered = [(noun, k) for k, kind in enumerate(sql_words.KINDS) for noun in kind.nouns.split()]
    pairs = []
    for i, modifier in enumerate(sql_words.MODIFIERS.split()):
        pairs += [(modifier, noun, k) for j, (noun, k) in enumerate(numbered) if (3 * i + 7 * j) % 10 in wanted]
    return pairs


def generate(rng: random.Random, pairs: Sequence[tuple[str, str, int]]) -> Schema:
    """A schema whose tables take their names from `pairs`."""
    num_tables = rng.choices((1, 2, 3), weights=(55, 35, 10))[0]
    chosen = rng.sample(pairs, 1)
    while len(chosen) < num_tables:
        pair = rng.choice(pairs)
        if all(pair[1] != other[1] for other in chosen):
            chosen.append(pair)
    tables: list[Table] = []
    for depth, (modifier, noun, kind) in enumerate(chosen):
        link = (chosen[depth - 1][1], tables[-1]) if depth else None
        tables.append(_table(rng, f"{modifier}_{noun}s", sql_words.KINDS[kind], link, num_tables, depth))
    return Schema(tables=tuple(tables))


def _table(
    rng: random.Random, name: str, kind: sql_words.Kind, link: tuple[str, Table] | None, num_tables: int, depth: int
) -> Table:
    """A lone table has four to five columns, linked ones two or three of their own."""
    is_parent = depth + 1 < num_tables
    num_numbers = rng.choice((2, 2, 3)) if num_tables == 1 else 1
    num_texts = rng.choice((1, 2)) if num_tables == 1 else int(num_tables == 2 or depth == 0)
    own = [Column(name=rng.choice(kind.label.split()), kind="label")]
    own += [Column(name=number, kind="number") for number in rng.sample(sorted(kind.numbers), num_numbers)]
    own += [Column(name=text, kind="text") for text in rng.sample(kind.texts.split(), num_texts)]
    rng.shuffle(own)
    first = [Column(name="id", kind="id")] if is_parent else []
    if link:
        own.insert(rng.randint(0, len(own)), Column(name=f"{link[0]}_id", kind="link"))
    columns = (*first, *own)
    num_rows = rng.randint(5, 7) if is_parent else rng.randint(9, 13)
    filled = [_values(rng, kind, column, num_rows, link[1] if link else None) for column in columns]
    return Table(name=name, columns=columns, rows=tuple(zip(*filled, strict=True)))


def _values(
    rng: random.Random, kind: sql_words.Kind, column: Column, num_rows: int, parent: Table | None
) -> Sequence[Value]:
    """Labels and numbers are all different, so that sorting has one result; texts repeat, so that groups have rows."""
    if column.kind == "id":
        return range(1, num_rows + 1)
    if column.kind == "link" and parent:
        linked = rng.sample(parent.values(parent.of("id")[0]), len(parent.rows) - 1)  # one parent has no child
        return rng.choices(linked, weights=range(1, len(linked) + 1), k=num_rows)
    if column.kind == "label":
        return rng.sample(sql_words.LABELS.split(), num_rows)
    if column.kind == "number":
        return rng.sample(range(*kind.numbers[column.name]), num_rows)
    return rng.choices(rng.sample(sql_words.VALUES[column.name].split(), 4), k=num_rows)


def _columns(table: Table) -> str:
    return ", ".join(f"{c.name} {'TEXT' if c.kind in ('label', 'text') else 'INTEGER'}" for c in table.columns)
