"""The rows of a run: shuffled by the seed, the drafters' first ones the target's, their tokens the vocabulary."""

from __future__ import annotations

from dataclasses import replace

import pytest

from draftune import errors
from draftune.data import audit, template
from draftune.target.tiny import tiny
from draftune.train import material
from draftune.types import Message, Row
from tests.train import echo

TARGET = tiny("llama")


def test_rows_are_the_same_for_a_seed_and_nested() -> None:
    small = material.prepare(TARGET, echo.task(), echo.config(adapter_rows=4, drafter_rows=10))
    large = material.prepare(TARGET, echo.task(), echo.config(adapter_rows=8, drafter_rows=None))
    assert small.drafter == large.drafter[:10]
    assert small.adapter == large.adapter[:4] == large.drafter[:4]
    assert len(large.drafter) == 32
    other = material.prepare(TARGET, echo.task(), echo.config(seed=1))
    assert other.drafter != large.drafter
    assert sorted(one.id for one in other.drafter) == sorted(one.id for one in large.drafter)


def test_fingerprint_tells_data_apart() -> None:
    task = echo.task()
    same = material.prepare(TARGET, echo.task(), echo.config()).fingerprint()
    assert material.prepare(TARGET, task, echo.config()).fingerprint() == same
    changed = replace(task, validation=task.validation[1:])
    assert material.prepare(TARGET, changed, echo.config()).fingerprint() != same


def test_vocabulary_holds_the_most_frequent_answer_tokens_and_the_end() -> None:
    found = material.prepare(TARGET, echo.task(), echo.config())
    counts = audit.token_counts(found.drafter)
    assert set(found.vocabulary.ids.tolist()) == set(counts) | template.end_tokens(TARGET.tokenizer)
    small = material.prepare(TARGET, echo.task(), echo.config(vocabulary_size=3)).vocabulary
    ends = template.end_tokens(TARGET.tokenizer)
    assert small.size == 3
    assert ends <= set(small.ids.tolist())
    assert max(set(counts) - ends, key=lambda token: (counts[token], -token)) in small.ids.tolist()
    whole = material.prepare(TARGET, echo.task(), echo.config(vocabulary_size="full")).vocabulary
    assert whole.columns_or_none is None


def test_rows_that_leave_no_room_for_an_answer_are_no_held_out_prompts() -> None:
    target = tiny("llama", max_position_embeddings=60)
    task = echo.task()
    long = Row(id="long", messages=(Message(role="user", content="a" * 30), Message(role="assistant", content="b")))
    found = material.prepare(target, replace(task, validation=[long, *task.validation]), echo.config(eval_rows=2))
    assert [request.id for request in found.requests] == ["validation/0", "validation/1"]


def test_an_answer_longer_than_the_context() -> None:
    with pytest.raises(errors.DataError, match="none of 32 rows fits 5 tokens; raise max_length"):
        material.prepare(TARGET, echo.task(), echo.config(max_length=5))
