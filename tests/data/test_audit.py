"""Counts of what will be learned, and refusals of what cannot teach."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from draftune import errors
from draftune.data import audit
from draftune.types import Example, Message, Row
from tests.data import families


def row(number: int, prompt: str, answer: str) -> Row:
    return Row(
        id=f"train/{number}", messages=(Message(role="user", content=prompt), Message(role="assistant", content=answer))
    )


def example(name: str, tokens: str, learned: str) -> Example:
    """example("a", "abc", "-xx"): tokens are letters, x is learned."""
    return Example(id=name, tokens=tuple(map(ord, tokens)), learned=tuple(mark == "x" for mark in learned))


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return families.tokenizer("chatml")


def test_rows_are_counted(tokenizer: Any) -> None:
    rows = [row(0, "What?", "yes"), row(1, "What?", "yes"), row(2, "ship " * 90, "no"), row(3, "Why?", "the speed")]
    examples, found = audit.encode_all(rows, tokenizer, 60)
    assert [one.id for one in examples] == ["train/0", "train/1", "train/3"]
    lengths = [len(one.tokens) for one in examples]
    assert (found.num_rows, found.num_examples, found.too_long) == (4, 3, ("train/2",))
    assert (found.num_tokens, found.longest, found.num_duplicates) == (sum(lengths), max(lengths), 1)
    num_learned = sum(len(tokenizer(text)["input_ids"]) + 1 for text in ("yes", "yes", "the speed"))
    assert (found.num_learned, found.num_answers, found.num_answers_learned) == (num_learned, 3, 3)
    assert found.sentences() == (
        f"3 examples, {sum(lengths)} tokens, of which {num_learned} ({num_learned / sum(lengths):.0%}) are learned; "
        f"the longest has {max(lengths)}",
        "1 rows (25.0%) exceed 60 tokens and are left out: train/2",
        "1 examples repeat an earlier one exactly",
    )


def test_earlier_answers_that_are_not_learned_are_counted() -> None:
    turns = [Message(role=role, content=role) for role in ("user", "assistant") * 2]  # type: ignore[arg-type]
    _, found = audit.encode_all([Row(id="a", messages=tuple(turns))], families.tokenizer("qwen3"), 100)
    assert (found.num_answers, found.num_answers_learned) == (2, 1)
    assert "1 earlier answers are not learned" in found.sentences()[1]
    assert (
        audit.encode_all([Row(id="a", messages=tuple(turns))], families.tokenizer("chatml"), 100)[1].sentences()[1:]
        == ()
    )


def test_overlap_of_the_splits() -> None:
    train = [example("a", "pqABCDEFGHIJ", "--xxxxxxxxxx"), example("b", "rsXYZ", "--xxx")]
    held_out = [
        example("same", "rsXYZ", "--xxx"),
        example("prompt", "pqZZZZZZZZ", "--xxxxxxxx"),
        example("grams", "mnABCDEFGHIX", "--xxxxxxxxxx"),
    ]
    found = audit.audit(train, held_out=held_out).overlap
    assert found is not None
    assert found.same == ("same",)
    assert found.same_prompt == ("same", "prompt")
    assert found.ngrams == (2, 4)  # ABCDEFGH and BCDEFGHI of grams' three; none of ZZZZZZZZ
    assert found.sentences() == (
        "1 of 3 held-out rows are training rows too: same",
        "1 of 3 held-out rows ask what a training row asks: prompt",
        "50.0% of the held-out answers' 8-grams occur in training answers",
    )
    assert audit.overlap(train, [example("new", "uvKLMN", "--xxxx")]).sentences() == (
        "0.0% of the held-out answers' 8-grams occur in training answers",
    )
    assert audit.audit(train).overlap is None


def test_a_prompt_is_not_an_answer() -> None:
    """A gram that stands in a train prompt is not counted, nor one that reaches into the held-out prompt."""
    train = [example("a", "ABCDEFGHIJ", "---------x")]
    assert audit.overlap(train, [example("b", "zABCDEFGHI", "-xxxxxxxxx")]).ngrams == (0, 2)
    assert audit.overlap(train, [example("c", "zzzABCDEFG", "--xxxxxxxx")]).ngrams == (0, 1)


@pytest.mark.parametrize(
    ("bad", "met"),
    [
        (example("b", "abc", "---"), "none of its 3 tokens is marked to be learned"),
        (example("b", "abc", "xxx"), "all of its 3 tokens are marked to be learned, the prompt among them"),
        (example("b", "abc", "-x"), "its mask has 2 places for 3 tokens"),
        (example("b", "", ""), "none of its 0 tokens is marked to be learned"),
    ],
)
def test_a_mask_that_is_empty_or_full(bad: Example, met: str) -> None:
    with pytest.raises(errors.DataError) as caught:
        audit.audit([example("a", "abc", "-xx"), bad])
    assert str(caught.value) == (
        f"checking the loss mask of row b: {met}; "
        "look at it with 'draftune data show' and correct the row or the chat template."
    )


def test_a_template_whose_prompt_is_nothing(tokenizer: Any) -> None:
    """The mask of such a row would be full."""
    bare = families.tokenizer(
        "chatml", "{% for m in messages if m.role == 'assistant' %}{{ m.content }}<|im_end|>{% endfor %}"
    )
    with pytest.raises(errors.DataError, match="checking the loss mask of row train/0: all of its 2 tokens"):
        audit.encode_all([row(0, "What?", "yes")], bare, 60)


def test_nothing_is_left(tokenizer: Any) -> None:
    with pytest.raises(errors.DataError) as caught:
        audit.encode_all([row(0, "ship " * 90, "no"), row(1, "ship " * 99, "no")], tokenizer, 60)
    assert str(caught.value) == "encoding rows: none of 2 rows fits 60 tokens; raise max_length or shorten the rows."
    assert "encoding row train/0: it has" in str(caught.value.__cause__)
    with pytest.raises(errors.DataError, match="there are no rows"):
        audit.encode_all([], tokenizer, 60)


def test_a_row_that_cannot_be_encoded_is_not_dropped(tokenizer: Any) -> None:
    with pytest.raises(errors.DataError, match="encoding row train/1: the tokens to learn read"):
        audit.encode_all([row(0, "What?", "yes"), row(1, "What?", "no<|im_end|>")], tokenizer, 60)


def test_token_counts() -> None:
    counts = audit.token_counts([example("a", "abcb", "-xxx"), example("b", "abb", "--x")])
    assert counts == Counter({ord("b"): 3, ord("c"): 1})


def test_words_stand_for_tokens() -> None:
    one, other = audit.in_words(row(0, "a b", "c d e")), audit.in_words(row(1, "a b", "c d f"))
    assert (len(one.tokens), sum(one.learned)) == (7, 3)
    assert audit.overlap([one], [other]).same_prompt == ("train/1",)
    assert audit.overlap([one], [other]).same == ()
