"""A task of a few letters, made of nothing: say the word twice."""

from __future__ import annotations

import random
from typing import Any

from draftune.data.metric import RougeL
from draftune.data.task import Task
from draftune.target.lora import LoraSettings
from draftune.target.target import Target
from draftune.target.tiny import tiny
from draftune.train.config import TrainConfig
from draftune.types import Message, Row


def target(**settings: Any) -> Target:
    """A random model of two layers."""
    return tiny("llama", num_hidden_layers=2, **settings)


def task(num_train: int = 32, num_validation: int = 6) -> Task:
    """Rows in which the assistant repeats the user's word twice."""
    return Task(
        name="echo",
        train=_rows(num_train, "train"),
        validation=_rows(num_validation, "validation"),
        test=[],
        metric=RougeL(),
    )


def config(**settings: Any) -> TrainConfig:
    """Settings small enough for tests; dropout is on, so that its noise must be repeatable."""
    small: dict[str, Any] = {
        "drafters": ("semiar-gru",),
        "adapter_rows": 16,
        "adapter_epochs": 2,
        "drafter_epochs": 2,
        "batch_size": 4,
        "drafter_batch_size": 8,
        "lr_adapter": 5e-3,
        "lora": LoraSettings(dropout=0.1, modules="q_proj,v_proj"),
        "evaluations": 2,
        "eval_rows": 4,
        "nll_rows": 6,
        "eval_max_new_tokens": 12,
    }
    return TrainConfig(**{**small, **settings})


def _rows(count: int, split: str) -> list[Row]:
    draw, rows = random.Random(split), []
    for index in range(count):
        word = "".join(draw.choice("abcdef") for _ in range(draw.randint(2, 7)))
        turns = (Message(role="user", content=word), Message(role="assistant", content=f"{word} {word}"))
        rows.append(Row(id=f"{split}/{index}", messages=turns))
    return rows
