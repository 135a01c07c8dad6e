"""Answers of the tuned target's own to training prompts: the very text that its drafter will have to guess."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from draftune import storage
from draftune.data import template
from draftune.decode.plain import PlainDecoder
from draftune.target.target import Target
from draftune.train.config import TrainConfig
from draftune.train.loop import Run
from draftune.train.material import Material, vocabulary
from draftune.types import Example, Request

FILE = "answers.jsonl"
FACTOR, MARGIN = 1.5, 16  # an answer gets so many times the tokens of the row's own, and so many more; one that
# rambles on would hold up its whole batch


def mixed(target: Target, material: Material, run: Run) -> Material:
    """The material with the first `own_answers` of the drafters' rows answered by the target itself, greedily.

    A row whose prompt leaves no room for an answer keeps its own. The vocabulary is that of the new answers too.
    """
    config, examples = run.config, material.drafter
    number = len(examples) if config.own_answers is None else min(config.own_answers, len(examples))
    if number == 0:
        return material
    path, room = run.folder / FILE, min(config.max_length, target.shape.max_length)
    asked = {one.id: one for one in examples[:number] if one.prompt_length < room}
    known = _read(path)
    _answer(target, [one for one in asked.values() if one.id not in known], path, room, run)
    known = _read(path)
    rows = [_with_answer(one, known[one.id]["tokens"]) if one.id in asked else one for one in examples]
    seconds = sum(known[name]["seconds"] for name in asked)
    run.history.add({"kind": "answers", "stage": "answers", "step": len(asked), "seconds": seconds})
    return replace(material, drafter=rows, vocabulary=vocabulary(rows, target, config))


def _answer(target: Target, examples: Sequence[Example], path: Path, room: int, run: Run) -> None:
    """Append the target's answers to the file, batch by batch. Rows of like length are answered together."""
    decoder, stops, config = PlainDecoder(target.runner()), template.end_tokens(target.tokenizer), run.config
    ordered = sorted(examples, key=lambda one: (len(one.tokens) - one.prompt_length, one.prompt_length))
    batches = [ordered[at : at + config.answer_batch_size] for at in range(0, len(ordered), config.answer_batch_size)]
    with run.reporter.count("answers", len(ordered)) as advance:
        for batch in batches:
            start = time.perf_counter()
            done = decoder.generate([_request(one, stops, room, config) for one in batch])
            seconds = (time.perf_counter() - start) / len(batch)
            lines = [json.dumps({"id": one.id, "tokens": one.tokens, "seconds": seconds}) for one in done]
            with storage.reporting(f"keeping answers in {path}"), path.open("a", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
            advance(len(batch))


def _request(example: Example, stops: frozenset[int], room: int, config: TrainConfig) -> Request:
    prompt = example.tokens[: example.prompt_length]
    own = len(example.tokens) - len(prompt)
    limit = min(config.answer_max_new_tokens, room - len(prompt), MARGIN + int(FACTOR * own))
    return Request(id=example.id, prompt=prompt, max_new_tokens=limit, stop_tokens=stops)


def _with_answer(example: Example, answer: Sequence[int]) -> Example:
    prompt = example.tokens[: example.prompt_length]
    return Example(id=example.id, tokens=(*prompt, *answer), learned=(False,) * len(prompt) + (True,) * len(answer))


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """What the file holds so far by row; a last line that a kill cut short is removed."""
    if not path.exists():
        return {}
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        storage.write(path, whole.encode(), doing=f"mending {path}")
    return {one["id"]: one for one in map(json.loads, whole.splitlines())}
