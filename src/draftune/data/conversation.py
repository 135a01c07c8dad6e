"""A conversation: the messages of a row, made from any of the usual shapes of fine-tuning data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from draftune import errors
from draftune.data.record import Record
from draftune.types import Message, Role

_ROLES: dict[str, Role] = {
    "system": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "model": "assistant",
}
_PAIRS = (("prompt", "completion"), ("prompt", "response"), ("question", "answer"))
_MAPPED = ("messages", "system", "prompt", "answer")
_FIELD = re.compile(r"\{([^{}]+)\}")


def pair(prompt: str, answer: str, system: str = "") -> tuple[Message, ...]:
    """The messages of one prompt and its answer, a system message first where there is one."""
    first = (Message(role="system", content=system),) if system.strip() else ()
    return (*first, Message(role="user", content=prompt), Message(role="assistant", content=answer))


def shape(fields: Mapping[str, Any]) -> Callable[[Record], tuple[Message, ...]] | None:
    """The reader that fits a row with these fields, or None where no known shape does."""
    if "messages" in fields:
        return lambda record: _turns(record, "messages")
    if "conversations" in fields:
        return lambda record: _turns(record, "conversations")
    if {"instruction", "output"} <= fields.keys():
        return _alpaca
    for prompt, answer in _PAIRS:
        if {prompt, answer} <= fields.keys():
            return lambda record: pair(text(record, prompt), text(record, answer))
    return None


def read(record: Record) -> tuple[Message, ...]:
    """The messages of a record in a known shape; raises DataError naming the row and the fields met."""
    reader = shape(record.fields)
    if reader is None:
        raise record.error(
            f"no known shape fits its fields ({_names(record)})",
            "give messages, conversations, instruction + output, prompt + completion, question + answer, or a mapping",
        )
    return reader(record)


def mapped(mapping: Mapping[str, str]) -> Callable[[Record], tuple[Message, ...]]:
    """The reader of a field mapping: {"prompt": "ask", "answer": "reply"}, or {"messages": "turns"}.

    A value with braces is filled: {"prompt": "{schema} {question}"}. Raises ConfigError for an unknown or absent key.
    """
    doing = "reading a field mapping"
    for key in mapping:
        if key not in _MAPPED:
            raise errors.ConfigError(doing=doing, met=f"unknown key {key!r}", todo=errors.nearest(key, _MAPPED))
    if "messages" in mapping:
        return lambda record: _turns(record, mapping["messages"])
    for key in ("prompt", "answer"):
        if key not in mapping:
            todo = "map both 'prompt' and 'answer', or 'messages'"
            raise errors.ConfigError(doing=doing, met=f"the key {key!r} is missing", todo=todo)

    def reader(record: Record) -> tuple[Message, ...]:
        values = {key: _fill(record, value) for key, value in mapping.items()}
        return pair(values["prompt"], values["answer"], values.get("system", ""))

    return reader


def text(record: Record, name: str) -> str:
    """The text of a field, "" for null; raises DataError where the row lacks it or holds something else."""
    if name not in record.fields:
        raise record.error(f"the field {name!r} is missing (its fields are {_names(record)})", "add it, or map another")
    value = record.fields[name]
    if value is None:
        return ""
    if isinstance(value, str | int | float):
        return str(value)
    kind = type(value).__name__
    raise record.error(f"the field {name!r} holds a {kind} where text is needed", "give text, or map another field")


def is_blank(messages: Sequence[Message]) -> bool:
    """True where there is nothing to ask or nothing to learn: no text before the last answer, or an empty answer."""
    *before, last = messages
    return not last.content.strip() or not any(message.content.strip() for message in before)


def _names(record: Record) -> str:
    return ", ".join(map(str, record.fields)) or "none"


def _fill(record: Record, value: str) -> str:
    if "{" not in value:
        return text(record, value)
    return _FIELD.sub(lambda match: text(record, match[1]), value)


def _alpaca(record: Record) -> tuple[Message, ...]:
    parts = [text(record, "instruction"), text(record, "input") if "input" in record.fields else ""]
    system = text(record, "system") if "system" in record.fields else ""
    return pair("\n\n".join(part for part in parts if part.strip()), text(record, "output"), system)


def _turns(record: Record, name: str) -> tuple[Message, ...]:
    """Messages in the manner of OpenAI (role, content) or ShareGPT (from, value), up to the last answer."""
    turns = record.fields.get(name)
    if turns is None:
        raise record.error(f"the field {name!r} is missing (its fields are {_names(record)})", "add it, or map another")
    if (
        not isinstance(turns, Sequence)
        or isinstance(turns, str)
        or not all(isinstance(turn, Mapping) for turn in turns)
    ):
        raise record.error(f"the field {name!r} is not a list of turns", "give a list of {role, content} objects")
    messages = [_message(record, number, turn) for number, turn in enumerate(turns, start=1)]
    while messages and messages[-1].role != "assistant":
        messages.pop()
    if not messages:
        raise record.error("no turn of it is the assistant's, so nothing can be learned", "add an answer, or remove it")
    return tuple(messages)


def _message(record: Record, number: int, turn: Mapping[str, Any]) -> Message:
    name = turn.get("role", turn.get("from"))
    role = _ROLES.get(str(name).lower())
    if role is None:
        raise record.error(f"turn {number} has the role {name!r}", f"use one of {', '.join(_ROLES)}")
    content = turn.get("content", turn.get("value"))
    if isinstance(content, list) and all(isinstance(part, Mapping) and part.get("type") == "text" for part in content):
        content = "".join(str(part.get("text", "")) for part in content)
    if not isinstance(content, str):
        raise record.error(f"turn {number} holds no text", "give its text; tool calls and images are not read")
    return Message(role=role, content=content)
