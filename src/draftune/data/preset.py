"""Presets: public task data sets, where they lie on the hub, how their rows become conversations, how they score."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from draftune.data import conversation, metric
from draftune.data.record import Record
from draftune.types import Message


@dataclass(frozen=True, kw_only=True)
class Preset:
    """How records become rows. A public data set's files may also be given by path: `sql:rows.jsonl`."""

    name: str
    hub: str = ""  # hub id, where the data set has one
    hub_config: str | None = None
    metric: str  # a key of METRICS
    read: Callable[[Record], tuple[Message, ...]]
    extra: Callable[[Record], Mapping[str, Any]] = field(default=lambda record: {})


_CALCULATION = re.compile(r"<<[^<>]*>>")


def _gsm8k(record: Record) -> tuple[Message, ...]:
    """Answers as published: the <<48/2=24>> marks of the calculator belong to them (Cobbe et al. 2021, section 5)."""
    question, answer = conversation.text(record, "question"), conversation.text(record, "answer")
    prompt = f"{question.strip()}\n\nSolve it step by step and end with #### and the number."
    return conversation.pair(prompt, answer.strip())


def _gsm8k_prose(record: Record) -> tuple[Message, ...]:
    """The same steps without the marks; the last line `#### 24` stays."""
    answer = _CALCULATION.sub("", conversation.text(record, "answer"))
    return _gsm8k(replace(record, fields={**record.fields, "answer": answer}))


def _samsum(record: Record) -> tuple[Message, ...]:
    """Lines end in LF. A row without a dialogue stays blank, so that it is left out and counted."""
    dialogue = conversation.text(record, "dialogue").replace("\r\n", "\n").strip()
    summary = conversation.text(record, "summary").replace("\r\n", "\n").strip()
    return conversation.pair(f"Summarize this chat briefly.\n\n{dialogue}" if dialogue else "", summary)


def _sql(record: Record) -> tuple[Message, ...]:
    """The bare query, without its [SQL] ... [/SQL] wrapper."""
    schema, question = conversation.text(record, "context"), conversation.text(record, "question")
    prompt = f"{schema.strip()}\n\nWrite one SQL query: {question.strip()}"
    return conversation.pair(prompt, metric.bare_sql(conversation.text(record, "answer")))


def _chatdoctor(record: Record) -> tuple[Message, ...]:
    """The patient's words and the doctor's; the rows' one instruction is replaced by a shorter one."""
    patient, doctor = conversation.text(record, "input").strip(), conversation.text(record, "output").strip()
    return conversation.pair(f"Answer as a doctor.\n\n{patient}" if patient else "", doctor)


def _final(record: Record) -> dict[str, float | None]:
    return {"final": metric.final_number(conversation.text(record, "answer"))}


GSM8K = Preset(name="gsm8k", hub="openai/gsm8k", hub_config="main", metric="final-number", read=_gsm8k, extra=_final)
GSM8K_PROSE = Preset(
    name="gsm8k-prose",
    hub="openai/gsm8k",
    hub_config="main",
    metric="final-number",
    read=_gsm8k_prose,
    extra=_final,
)
SAMSUM = Preset(name="samsum", hub="knkarthick/samsum", metric="rouge-l", read=_samsum)
SQL = Preset(name="sql", hub="b-mc2/sql-create-context", metric="sql-match", read=_sql)
CHATDOCTOR = Preset(name="chatdoctor", hub="LinhDuong/chatdoctor-5k", metric="rouge-l", read=_chatdoctor)
