"""Rows in the usual shapes become the same conversation; what is missing is told with the row and its fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from draftune import errors
from draftune.data import conversation
from draftune.data.record import Record
from draftune.types import Message

ASKED = (Message(role="user", content="Which?"), Message(role="assistant", content="This."))
SYSTEM = (Message(role="system", content="Be short."), *ASKED)
TURNS = [{"role": "user", "content": "Which?"}, {"role": "assistant", "content": "This."}]


def record(**fields: Any) -> Record:
    return Record(source="rows.jsonl", number=18, fields=fields)


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({"messages": TURNS, "id": 3}, ASKED),
        ({"messages": [{"role": "system", "content": "Be short."}, *TURNS]}, SYSTEM),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "Which?"}]}, TURNS[1]]}, ASKED),
        ({"messages": [*TURNS, {"role": "user", "content": "Thanks"}]}, ASKED),
        ({"conversations": [{"from": "human", "value": "Which?"}, {"from": "gpt", "value": "This."}]}, ASKED),
        (
            {
                "conversations": [
                    {"from": "system", "value": "Be short."},
                    {"from": "user", "value": "Which?"},
                    {"from": "model", "value": "This."},
                ]
            },
            SYSTEM,
        ),
        ({"instruction": "Which?", "input": "", "output": "This."}, ASKED),
        ({"instruction": "Which?", "output": "This."}, ASKED),
        ({"instruction": "Which?", "output": "This.", "system": "Be short."}, SYSTEM),
        ({"prompt": "Which?", "completion": "This."}, ASKED),
        ({"prompt": "Which?", "response": "This."}, ASKED),
        ({"question": "Which?", "answer": "This."}, ASKED),
    ],
)
def test_shapes(fields: dict[str, Any], messages: tuple[Message, ...]) -> None:
    assert conversation.read(record(**fields)) == messages


def test_alpaca_joins_instruction_and_input() -> None:
    messages = conversation.read(record(instruction="Translate.", input="Oui", output="Yes"))
    assert messages[0].content == "Translate.\n\nOui"


@pytest.mark.parametrize(
    ("mapping", "fields", "messages"),
    [
        ({"prompt": "ask", "answer": "reply"}, {"ask": "Which?", "reply": "This."}, ASKED),
        ({"prompt": "a", "answer": "b", "system": "c"}, {"a": "Which?", "b": "This.", "c": "Be short."}, SYSTEM),
        ({"prompt": "{a}{b}", "answer": "c"}, {"a": "Whi", "b": "ch?", "c": "This."}, ASKED),
        ({"messages": "turns"}, {"turns": TURNS}, ASKED),
    ],
)
def test_mapping(mapping: dict[str, str], fields: dict[str, Any], messages: tuple[Message, ...]) -> None:
    assert conversation.mapped(mapping)(record(**fields)) == messages


def refusal(read: Callable[[Record], Any], **fields: Any) -> str:
    with pytest.raises(errors.DataError) as caught:
        read(record(**fields))
    return str(caught.value)


def test_rows_without_the_needed_field() -> None:
    mapped = conversation.mapped({"prompt": "ask", "answer": "reply"})
    assert refusal(mapped, ask="Which?", says="This.") == (
        "reading row 18 of rows.jsonl: the field 'reply' is missing (its fields are ask, says); add it, or map another."
    )
    assert refusal(conversation.read, ask="Which?", reply="This.") == (
        "reading row 18 of rows.jsonl: no known shape fits its fields (ask, reply); give messages, conversations, "
        "instruction + output, prompt + completion, question + answer, or a mapping."
    )
    assert "(its fields are none)" in refusal(mapped)
    assert "the field 'turns' is missing (its fields are messages)" in refusal(
        conversation.mapped({"messages": "turns"}), messages=TURNS
    )


@pytest.mark.parametrize(
    ("fields", "met"),
    [
        ({"prompt": ["Which?"], "completion": "This."}, "the field 'prompt' holds a list where text is needed"),
        ({"messages": "Which?"}, "the field 'messages' is not a list of turns"),
        ({"messages": ["Which?"]}, "the field 'messages' is not a list of turns"),
        ({"messages": None}, "the field 'messages' is missing (its fields are messages)"),
        ({"messages": []}, "no turn of it is the assistant's, so nothing can be learned"),
        ({"messages": TURNS[:1]}, "no turn of it is the assistant's, so nothing can be learned"),
        ({"messages": [{"role": "tool", "content": "3"}]}, "turn 1 has the role 'tool'"),
        ({"messages": [TURNS[0], {"content": "This."}]}, "turn 2 has the role None"),
        ({"messages": [TURNS[0], {"role": "assistant", "content": None}]}, "turn 2 holds no text"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}, TURNS[1]]}, "turn 1 holds no text"),
    ],
)
def test_rows_that_hold_something_else(fields: dict[str, Any], met: str) -> None:
    assert f"reading row 18 of rows.jsonl: {met}; " in refusal(conversation.read, **fields)


def test_numbers_are_text_and_null_is_blank() -> None:
    assert conversation.read(record(question=7, answer=0.5))[1].content == "0.5"
    assert conversation.is_blank(conversation.read(record(question="Which?", answer=None)))
    assert conversation.is_blank(conversation.read(record(question=" \n", answer="This.")))
    assert not conversation.is_blank(ASKED)


@pytest.mark.parametrize(
    ("mapping", "sentence"),
    [
        ({"promt": "a"}, "reading a field mapping: unknown key 'promt'; did you mean 'prompt'?"),
        (
            {"prompt": "a"},
            "reading a field mapping: the key 'answer' is missing; map both 'prompt' and 'answer', or 'messages'.",
        ),
    ],
)
def test_a_mapping_that_cannot_be_honoured(mapping: dict[str, str], sentence: str) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        conversation.mapped(mapping)
    assert str(caught.value) == sentence
