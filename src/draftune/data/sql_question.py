"""Questions about a generated schema and the SQL that answers each, one small function for each kind."""

from __future__ import annotations

import random
from collections.abc import Callable

from draftune.data.sql_schema import Column, Schema, Table, literal

Pair = tuple[str, str]  # question, SQL
Writer = Callable[[random.Random, Schema], Pair]

_PLURAL = ("What are {}?", "Show {}.", "List {}.", "Find {}.", "Give {}.", "Tell me {}.", "Return {}.", "Look up {}.")
_PLURAL += ("Please list {}.", "Can you show {}?", "I need {}.", "Which are {}?")
_SINGULAR = (
    "What is {}?",
    "Find {}.",
    "Show {}.",
    "Tell me {}.",
    "Return {}.",
    "Give {}.",
    "Compute {}.",
    "I need {}.",
)
_COMPARE = {
    ">": ("above {}", "greater than {}", "over {}", "of more than {}"),
    "<": ("below {}", "less than {}", "under {}", "smaller than {}"),
    ">=": ("of at least {}", "of {} or more"),
    "<=": ("of at most {}", "of {} or less"),
}
_AGGREGATES = {
    "AVG": ("average", "mean"),
    "MAX": ("maximum", "highest", "largest"),
    "MIN": ("minimum", "lowest", "smallest"),
    "SUM": ("total", "summed"),
}


def write(rng: random.Random, schema: Schema) -> Pair:
    """A question about the schema and its SQL; of several tables, mostly one that joins them."""
    kinds = _BY_TABLES[len(schema.tables)]
    return rng.choice(kinds)(rng, schema)


def _ask(rng: random.Random, thing: str, *, plural: bool = True) -> str:
    return rng.choice(_PLURAL if plural else _SINGULAR).format(thing)


def _condition(rng: random.Random, table: Table, alias: str = "") -> Pair:
    """ "with a price above 30" and "price > 30", true of some row."""
    column = rng.choice(table.of("number") + table.of("text"))
    value = rng.choice(table.values(column))
    if column.kind == "text":
        form = rng.choice(("whose {} is {}", "with {} {}", "where the {} is {}", "that have {} {}"))
        return form.format(column.words, value), f"{alias}{column.name} = {literal(value)}"
    ordered = sorted(table.values(column))
    value = rng.choice(ordered[1:-1])
    operator = rng.choice(list(_COMPARE))
    form = rng.choice(("with a {} {}", "whose {} is {}", "that have a {} {}"))
    words = rng.choice(_COMPARE[operator]).format(value)
    words = words.removeprefix("of ") if "whose" in form else words
    return form.format(column.words, words), f"{alias}{column.name} {operator} {value}"


def _columns(rng: random.Random, table: Table) -> Pair:
    """ "name and price" and "name, price"."""
    others = table.of("number") + table.of("text")
    picked = [table.label, *rng.sample(others, rng.choice((0, 1, 1)))]
    rng.shuffle(picked)
    return " and ".join(column.words for column in picked), ", ".join(column.name for column in picked)


def _aggregate(rng: random.Random, column: Column, alias: str = "") -> Pair:
    function = rng.choice(list(_AGGREGATES))
    return f"{rng.choice(_AGGREGATES[function])} {column.words}", f"{function}({alias}{column.name})"


def _some(rng: random.Random, schema: Schema) -> Table:
    return rng.choice(schema.tables)


def _where(rng: random.Random, schema: Schema) -> Pair:
    table = _some(rng, schema)
    (words, columns), (condition, sql) = _columns(rng, table), _condition(rng, table)
    all_of = rng.choice(("the", "all", "the"))
    thing = f"the {words} of {all_of} {table.words} {condition}"
    return _ask(rng, thing), f"SELECT {columns} FROM {table.name} WHERE {sql}"


def _where_two(rng: random.Random, schema: Schema) -> Pair:
    table = _with_text(rng, schema)
    words, columns = _columns(rng, table)
    first, second = _condition(rng, table), _condition(rng, table)
    while second[1].split()[0] == first[1].split()[0]:
        second = _condition(rng, table)
    joint = rng.choice(("and", "or"))
    thing = f"the {words} of {table.words} {first[0]} {joint} {second[0]}"
    return _ask(rng, thing), f"SELECT {columns} FROM {table.name} WHERE {first[1]} {joint.upper()} {second[1]}"


def _between(rng: random.Random, schema: Schema) -> Pair:
    table = _some(rng, schema)
    number, (words, columns) = rng.choice(table.of("number")), _columns(rng, table)
    low, high = sorted(rng.sample(table.values(number), 2))
    range_words = rng.choice((f"between {low} and {high}", f"from {low} to {high}"))
    thing = f"the {words} of {table.words} whose {number.words} is {range_words}"
    return _ask(rng, thing), f"SELECT {columns} FROM {table.name} WHERE {number.name} BETWEEN {low} AND {high}"


def _one_of(rng: random.Random, schema: Schema) -> Pair:
    table = _with_text(rng, schema)
    text, (words, columns) = rng.choice(table.of("text")), _columns(rng, table)
    two = rng.sample(sorted(set(table.values(text))), 2)
    thing = f"the {words} of {table.words} whose {text.words} is {two[0]} or {two[1]}"
    values = ", ".join(map(literal, two))
    return _ask(rng, thing), f"SELECT {columns} FROM {table.name} WHERE {text.name} IN ({values})"


def _prefix(rng: random.Random, schema: Schema) -> Pair:
    table = _some(rng, schema)
    letter = str(rng.choice(table.values(table.label)))[0]
    words, columns = _columns(rng, table)
    starts = rng.choice(("starts with", "begins with"))
    thing = f"the {words} of {table.words} whose {table.label.words} {starts} {letter}"
    return _ask(rng, thing), f"SELECT {columns} FROM {table.name} WHERE {table.label.name} LIKE '{letter}%'"


def _sorted(rng: random.Random, schema: Schema) -> Pair:
    table = _some(rng, schema)
    number, (words, columns) = rng.choice(table.of("number")), _columns(rng, table)
    order, how = rng.choice((("", "from lowest to highest"), ("", "in ascending order of"), (" DESC", "from highest")))
    tail = f"{how} {number.words}" if "order of" in how else f"sorted by {number.words} {how}"
    condition, sql = _condition(rng, table) if rng.random() < 0.5 else ("", "")
    where = f" WHERE {sql}" if sql else ""
    thing = f"the {words} of {table.words} {condition + ', ' if condition else ''}{tail}"
    return _ask(rng, thing), f"SELECT {columns} FROM {table.name}{where} ORDER BY {number.name}{order}"


def _top(rng: random.Random, schema: Schema) -> Pair:
    table = _some(rng, schema)
    number, (words, columns) = rng.choice(table.of("number")), _columns(rng, table)
    order, how = rng.choice(((" DESC", "highest"), (" DESC", "largest"), ("", "lowest"), ("", "smallest")))
    count = rng.randint(2, 5)
    thing = f"the {words} of the {count} {table.words} with the {how} {number.words}"
    return _ask(rng, thing), f"SELECT {columns} FROM {table.name} ORDER BY {number.name}{order} LIMIT {count}"


def _best(rng: random.Random, schema: Schema) -> Pair:
    table = _some(rng, schema)
    number = rng.choice(table.of("number"))
    order, how = rng.choice(((" DESC", "highest"), (" DESC", "greatest"), ("", "lowest"), ("", "least")))
    condition, sql = _condition(rng, table)
    thing = f"the {table.label.words} of the {table.singular} with the {how} {number.words} among those {condition}"
    question = _ask(rng, thing, plural=False)
    return question, f"SELECT {table.label.name} FROM {table.name} WHERE {sql} ORDER BY {number.name}{order} LIMIT 1"


def _extreme(rng: random.Random, schema: Schema) -> Pair:
    table = _some(rng, schema)
    number, (words, columns) = rng.choice(table.of("number")), _columns(rng, table)
    function, how = rng.choice((("MAX", "maximum"), ("MIN", "minimum")))
    nested = f"(SELECT {function}({number.name}) FROM {table.name})"
    thing = f"the {words} of the {table.singular} that has the {how} {number.words}"
    return _ask(rng, thing, plural=False), f"SELECT {columns} FROM {table.name} WHERE {number.name} = {nested}"


def _against_average(rng: random.Random, schema: Schema) -> Pair:
    table = _some(rng, schema)
    number, (words, columns) = rng.choice(table.of("number")), _columns(rng, table)
    operator, how = rng.choice(((">", "above"), ("<", "below")))
    nested = f"(SELECT AVG({number.name}) FROM {table.name})"
    thing = f"the {words} of {table.words} whose {number.words} is {how} the average"
    return _ask(rng, thing), f"SELECT {columns} FROM {table.name} WHERE {number.name} {operator} {nested}"


def _count(rng: random.Random, schema: Schema) -> Pair:
    table = _some(rng, schema)
    condition, sql = _condition(rng, table)
    counted = rng.choice(("How many {} are there {}?", "Count the {} {}.", "What is the number of {} {}?"))
    return counted.format(table.words, condition), f"SELECT COUNT(*) FROM {table.name} WHERE {sql}"


def _count_different(rng: random.Random, schema: Schema) -> Pair:
    table = _with_text(rng, schema)
    text, (condition, sql) = rng.choice(table.of("text")), _condition(rng, table)
    asked = rng.choice(("How many different {} values do {} have {}?", "Count the distinct {} values of {} {}."))
    question = asked.format(text.words, table.words, condition)
    return question, f"SELECT COUNT(DISTINCT {text.name}) FROM {table.name} WHERE {sql}"


def _aggregated(rng: random.Random, schema: Schema) -> Pair:
    table = _some(rng, schema)
    (words, value), (condition, sql) = _aggregate(rng, rng.choice(table.of("number"))), _condition(rng, table)
    thing = f"the {words} of {table.words} {condition}"
    return _ask(rng, thing, plural=False), f"SELECT {value} FROM {table.name} WHERE {sql}"


def _range(rng: random.Random, schema: Schema) -> Pair:
    table = _some(rng, schema)
    number, (condition, sql) = rng.choice(table.of("number")), _condition(rng, table)
    thing = f"the minimum and maximum {number.words} of {table.words} {condition}"
    return _ask(rng, thing), f"SELECT MIN({number.name}), MAX({number.name}) FROM {table.name} WHERE {sql}"


def _group(rng: random.Random, schema: Schema) -> Pair:
    table = _with_text(rng, schema)
    text = rng.choice(table.of("text"))
    words, value = ("number", "COUNT(*)") if rng.random() < 0.4 else _aggregate(rng, rng.choice(table.of("number")))
    thing = rng.choice(
        (
            f"the {words} of {table.words} for each {text.words}",
            f"each {text.words} of the {table.words} with the {words}",
        )
    )
    return _ask(rng, thing), f"SELECT {text.name}, {value} FROM {table.name} GROUP BY {text.name}"


def _group_having(rng: random.Random, schema: Schema) -> Pair:
    table = _with_text(rng, schema)
    text, least = rng.choice(table.of("text")), rng.randint(2, 3)
    thing = f"each {text.words} that at least {least} {table.words} have"
    group = f"GROUP BY {text.name} HAVING COUNT(*) >= {least}"
    return _ask(rng, thing), f"SELECT {text.name} FROM {table.name} {group}"


def _group_most(rng: random.Random, schema: Schema) -> Pair:
    table = _with_text(rng, schema)
    text, (words, value) = rng.choice(table.of("text")), _aggregate(rng, rng.choice(table.of("number")))
    order, how = rng.choice(((" DESC", "highest"), ("", "lowest")))
    thing = f"the {text.words} of {table.words} with the {how} {words}"
    sql = f"SELECT {text.name} FROM {table.name} GROUP BY {text.name} ORDER BY {value}{order} LIMIT 1"
    return _ask(rng, thing, plural=False), sql


def _different(rng: random.Random, schema: Schema) -> Pair:
    table = _with_text(rng, schema)
    text, (condition, sql) = rng.choice(table.of("text")), _condition(rng, table)
    thing = f"the different {text.words} values of {table.words} {condition}"
    return _ask(rng, thing), f"SELECT DISTINCT {text.name} FROM {table.name} WHERE {sql}"


def _with_text(rng: random.Random, schema: Schema) -> Table:
    """A table with a text column; the first always has one."""
    return rng.choice([table for table in schema.tables if table.of("text")])


def _linked(rng: random.Random, schema: Schema) -> tuple[Table, Table, str]:
    """A parent, its child, and the join of both with T1 for the parent."""
    place = rng.randrange(1, len(schema.tables))
    parent, child = schema.tables[place - 1], schema.tables[place]
    return parent, child, f"{parent.name} AS T1 JOIN {child.name} AS T2 ON T1.id = T2.{child.of('link')[0].name}"


def _children_where(rng: random.Random, schema: Schema) -> Pair:
    parent, child, join = _linked(rng, schema)
    condition, sql = _condition(rng, parent, "T1.")
    column = rng.choice([child.label, *child.of("number")])
    belong = rng.choice(("of", "that belong to", "linked to"))
    thing = f"the {column.words} of {child.words} {belong} {parent.words} {condition}"
    return _ask(rng, thing), f"SELECT T2.{column.name} FROM {join} WHERE {sql}"


def _both_labels(rng: random.Random, schema: Schema) -> Pair:
    parent, child, join = _linked(rng, schema)
    condition, sql = _condition(rng, child, "T2.")
    thing = (
        f"the {parent.label.words} of the {parent.singular} and the {child.label.words} for {child.words} {condition}"
    )
    return _ask(rng, thing), f"SELECT T1.{parent.label.name}, T2.{child.label.name} FROM {join} WHERE {sql}"


def _per_parent(rng: random.Random, schema: Schema) -> Pair:
    parent, child, join = _linked(rng, schema)
    words, value = _aggregate(rng, rng.choice(child.of("number")), "T2.")
    if rng.random() < 0.4:
        words, value = "number", "COUNT(*)"
    thing = f"the {parent.label.words} of each {parent.singular} and the {words} of its {child.words}"
    return _ask(rng, thing), f"SELECT T1.{parent.label.name}, {value} FROM {join} GROUP BY T1.id"


def _most_children(rng: random.Random, schema: Schema) -> Pair:
    parent, child, join = _linked(rng, schema)
    thing = (
        f"the {parent.label.words} of the {parent.singular} {rng.choice(('with', 'that has'))} the most {child.words}"
    )
    sql = f"SELECT T1.{parent.label.name} FROM {join} GROUP BY T1.id ORDER BY COUNT(*) DESC LIMIT 1"
    return _ask(rng, thing, plural=False), sql


def _having_children(rng: random.Random, schema: Schema) -> Pair:
    parent, child, join = _linked(rng, schema)
    least = rng.randint(2, 3)
    thing = f"the {parent.label.words} of {parent.words} that have at least {least} {child.words}"
    return _ask(rng, thing), f"SELECT T1.{parent.label.name} FROM {join} GROUP BY T1.id HAVING COUNT(*) >= {least}"


def _children_of_one(rng: random.Random, schema: Schema) -> Pair:
    parent, child, join = _linked(rng, schema)
    words, value = _aggregate(rng, rng.choice(child.of("number")), "T2.")
    name = rng.choice(parent.values(parent.label))
    thing = f"the {words} of {child.words} of the {parent.singular} whose {parent.label.words} is {name}"
    sql = f"SELECT {value} FROM {join} WHERE T1.{parent.label.name} = {literal(name)}"
    return _ask(rng, thing, plural=False), sql


def _parents_in(rng: random.Random, schema: Schema) -> Pair:
    parent, child, _ = _linked(rng, schema)
    link, (condition, sql) = child.of("link")[0].name, _condition(rng, child)
    words, columns = _columns(rng, parent)
    thing = f"the {words} of {parent.words} that have {child.words} {condition}"
    nested = f"(SELECT {link} FROM {child.name} WHERE {sql})"
    return _ask(rng, thing), f"SELECT {columns} FROM {parent.name} WHERE id IN {nested}"


def _parents_without(rng: random.Random, schema: Schema) -> Pair:
    parent, child, _ = _linked(rng, schema)
    words, columns = _columns(rng, parent)
    without = rng.choice(("without any", "that have no"))
    nested = f"(SELECT {child.of('link')[0].name} FROM {child.name})"
    thing = f"the {words} of {parent.words} {without} {child.words}"
    return _ask(rng, thing), f"SELECT {columns} FROM {parent.name} WHERE id NOT IN {nested}"


def _top_child(rng: random.Random, schema: Schema) -> Pair:
    parent, child, join = _linked(rng, schema)
    number = rng.choice(child.of("number"))
    order, how = rng.choice(((" DESC", "highest"), ("", "lowest")))
    thing = f"the {parent.label.words} of the {parent.singular} of the {child.singular} with the {how} {number.words}"
    sql = f"SELECT T1.{parent.label.name} FROM {join} ORDER BY T2.{number.name}{order} LIMIT 1"
    return _ask(rng, thing, plural=False), sql


def _chain(schema: Schema) -> tuple[Table, Table, Table, str]:
    first, second, third = schema.tables
    join = f"{first.name} AS T1 JOIN {second.name} AS T2 ON T1.id = T2.{second.of('link')[0].name}"
    return first, second, third, f"{join} JOIN {third.name} AS T3 ON T2.id = T3.{third.of('link')[0].name}"


def _grandchildren(rng: random.Random, schema: Schema) -> Pair:
    first, second, third, join = _chain(schema)
    condition, sql = _condition(rng, first, "T1.")
    thing = f"the {third.label.words} of {third.words} whose {second.singular} belongs to {first.words} {condition}"
    return _ask(rng, thing), f"SELECT T3.{third.label.name} FROM {join} WHERE {sql}"


def _per_grandparent(rng: random.Random, schema: Schema) -> Pair:
    first, _, third, join = _chain(schema)
    words, value = rng.choice((("number", "COUNT(*)"), _aggregate(rng, rng.choice(third.of("number")), "T3.")))
    thing = f"the {first.label.words} of each {first.singular} and the {words} of {third.words} that belong to it"
    return _ask(rng, thing), f"SELECT T1.{first.label.name}, {value} FROM {join} GROUP BY T1.id"


_ONE: tuple[Writer, ...] = (_where, _where_two, _between, _one_of, _prefix, _sorted, _top, _best, _extreme)
_ONE += (
    _against_average,
    _count,
    _count_different,
    _aggregated,
    _range,
    _group,
    _group_having,
    _group_most,
    _different,
)
_TWO: tuple[Writer, ...] = (_children_where, _both_labels, _per_parent, _most_children, _having_children)
_TWO += (_children_of_one, _parents_in, _parents_without, _top_child)
_THREE: tuple[Writer, ...] = (_grandchildren, _per_grandparent)
_BY_TABLES = {1: _ONE, 2: _TWO * 4 + _ONE, 3: _TWO * 2 + _THREE * 6 + _ONE}
