"""Metrics: how well a text answers a row, 0 to 1, by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from draftune.data import database
from draftune.types import Row


class Metric(Protocol):
    """Scores a generated text against a row's answer; higher is better, 0..1."""

    name: str

    def __call__(self, row: Row, text: str) -> float:
        """The score of `text` as the answer to `row`."""
        ...


class RougeL:
    """ROUGE-L F1 over lower-case words (Lin 2004): the longest common subsequence against both lengths."""

    name = "rouge-l"

    def __call__(self, row: Row, text: str) -> float:
        answer, said = _words(row.answer), _words(text)
        if not answer or not said:
            return float(answer == said)
        return 2 * _common_subsequence(answer, said) / (len(answer) + len(said))


class FinalNumber:
    """1 where the text ends in the right number: the one after the last '####', else its last number."""

    name = "final-number"

    def __call__(self, row: Row, text: str) -> float:
        gold, said = final_number(row.answer), final_number(text)
        return float(gold is not None and said is not None and abs(gold - said) < 1e-6)


class SqlMatch:
    """1 where two queries are the same text but for case, spaces, kind of quotes and a last semicolon."""

    name = "sql-match"

    def __call__(self, row: Row, text: str) -> float:
        return float(normalise_sql(text) == normalise_sql(row.answer))


class SqlExecution:
    """1 where the query gives the same rows as the answer's on the database of `row.extra["database"]`.

    The order of the rows counts where the answer sorts them.
    """

    name = "sql-execution"

    def __call__(self, row: Row, text: str) -> float:
        with database.Database(row.extra["database"]) as tables:
            gold, said = tables.query(row.answer), tables.query(bare_sql(text))
        if gold is None or said is None:
            return 0.0
        return float(database.same(gold, said, ordered=_sorts(row.answer)))


METRICS: dict[str, Metric] = {metric.name: metric for metric in (RougeL(), FinalNumber(), SqlMatch(), SqlExecution())}

_NUMBER = re.compile(r"(?:(?<!\d)-)?\$?(?:\d[\d,]*(?:\.\d+)?|\.\d+)")
_FENCE = re.compile(r"```(?:sql)?\s*(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_SQL_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\w+(?:\.\w+)*|[<>!=]=|<>|\|\||\S")


def final_number(text: str) -> float | None:
    """The number after the last '####' of a text, else the last number in it, else None."""
    found = _NUMBER.findall(text.rpartition("####")[2]) if "####" in text else _NUMBER.findall(text)[-1:]
    return float(found[0].replace(",", "").replace("$", "")) if found else None


def bare_sql(text: str) -> str:
    """The query in a text, freed of a code fence, of [SQL] marks and of a last semicolon."""
    fence = _FENCE.search(text)
    text = (fence[1] if fence else text).replace("[SQL]", "").replace("[/SQL]", "")
    return text.strip().rstrip(";").strip()


def normalise_sql(text: str) -> tuple[str, ...]:
    """The tokens of a query, words in lower case, strings in single quotes with their case kept."""
    tokens = []
    for token in _SQL_TOKEN.findall(bare_sql(text)):
        quoted = len(token) > 1 and token[0] in "'\""
        tokens.append("'" + token[1:-1] + "'" if quoted else token.lower())
    return tuple("!=" if token == "<>" else "=" if token == "==" else token for token in tokens)


def _sorts(sql: str) -> bool:
    """True where ORDER BY stands outside all brackets."""
    depth, tokens = 0, normalise_sql(sql)
    for token, following in zip(tokens, (*tokens[1:], ""), strict=True):
        depth += (token == "(") - (token == ")")
        if depth == 0 and (token, following) == ("order", "by"):
            return True
    return False


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _common_subsequence(left: Sequence[str], right: Sequence[str]) -> int:
    """Length of the longest common subsequence: 3 for a b c d and a c x d."""
    row = [0] * (len(right) + 1)
    for word in left:
        above = 0  # row[j-1] before this word
        for j, other in enumerate(right, start=1):
            above, row[j] = row[j], above + 1 if word == other else max(row[j], row[j - 1])
    return row[-1]
