"""What a run learns from and is judged on: encoded rows, held-out prompts, the domain vocabulary."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from draftune.data import audit, template
from draftune.data.task import Task
from draftune.drafters.vocabulary import Vocabulary
from draftune.target.target import Target
from draftune.train import seed
from draftune.train.config import TrainConfig
from draftune.types import Example, Request, Row


@dataclass(frozen=True, kw_only=True)
class Material:
    """The rows of a task as a run takes them. The target learns from the first of the drafters' rows."""

    adapter: list[Example]
    drafter: list[Example]
    validation: list[Example]  # gold answers, for the likelihood
    requests: list[Request]  # held-out prompts, for the target's own answers
    vocabulary: Vocabulary
    notes: tuple[str, ...]  # what a person should know of the rows

    def fingerprint(self) -> str:
        """16 hex digits of all of it, in order."""
        digest = hashlib.sha256()
        for examples in (self.adapter, self.drafter, self.validation):
            for example in examples:
                digest.update(json.dumps([example.tokens, example.learned]).encode())
        for request in self.requests:
            digest.update(json.dumps(request.prompt).encode())
        return digest.hexdigest()[:16]


def prepare(target: Target, task: Task, config: TrainConfig) -> Material:
    """The material of `task` for this target. Raises DataError where rows cannot teach anything."""
    max_length = min(config.max_length, target.shape.max_length)
    rows = [task.train[index] for index in seed.shuffled(len(task.train), config.seed, "rows")]
    examples, found = audit.encode_all(rows[: _num_needed(config)], target.tokenizer, max_length)
    validation = _validation(task, target, config.nll_rows, max_length)
    if validation:
        overlap = audit.audit(examples, held_out=validation, too_long=found.too_long, max_length=max_length)
        found = overlap
    drafter = examples[: config.drafter_rows] if _trains_drafters_apart(config) else examples[: config.adapter_rows]
    return Material(
        adapter=examples[: config.adapter_rows],
        drafter=drafter,
        validation=validation,
        requests=_requests(task.validation, target, config),
        vocabulary=vocabulary(drafter, target, config),
        notes=found.sentences(),
    )


def vocabulary(examples: Sequence[Example], target: Target, config: TrainConfig) -> Vocabulary:
    """The tokens of the answers, most frequent first, with those that end an answer always among them."""
    full_size = target.shape.vocab_size
    if config.vocabulary_size == "full":
        return Vocabulary.full(full_size)
    counts = audit.token_counts(examples)
    most = max(counts.values())
    counts.update({end: most for end in template.end_tokens(target.tokenizer) if end < full_size})
    return Vocabulary.from_counts(counts, full_size, config.vocabulary_size)


def _trains_drafters_apart(config: TrainConfig) -> bool:
    return config.mode == "after" or config.drafter_after_joint


def _num_needed(config: TrainConfig) -> int | None:
    wanted = [config.adapter_rows] if config.adapter_epochs and config.adapter is None else []
    wanted += [config.drafter_rows] if _trains_drafters_apart(config) else []
    return None if None in wanted else max(number for number in wanted if number is not None)


def _validation(task: Task, target: Target, num_rows: int, max_length: int) -> list[Example]:
    rows = task.validation[:num_rows]
    return audit.encode_all(rows, target.tokenizer, max_length)[0] if rows else []


def _requests(rows: Sequence[Row], target: Target, config: TrainConfig) -> list[Request]:
    """The first held-out prompts that leave room for an answer."""
    chat, requests = template.ChatTemplate.of(target.tokenizer), []
    for row in rows:
        prompt = chat.tokens(chat.render(row.prompt, generation=True))
        if len(prompt) + config.eval_max_new_tokens <= target.shape.max_length:
            limit, stops = config.eval_max_new_tokens, chat.ends
            requests.append(Request(id=row.id, prompt=tuple(prompt), max_new_tokens=limit, stop_tokens=stops))
        if len(requests) == config.eval_rows:
            break
    return requests
