"""`builtin:notes`: generated dialogues, each with a one-sentence note; no network, no file."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from draftune.data import conversation, metric, notes_scene, notes_words
from draftune.data.task import Task
from draftune.types import Row

NUM_TRAIN = 4000
_INSTRUCTION = "Sum up the chat in one sentence."
_SHARES = {"train": range(8), "validation": (8,), "test": (9,)}  # places modulo 10 in each pool


def task(*, seed: int = 0, train: int = NUM_TRAIN, validation: int = 200, test: int = 200) -> Task:
    """The task with that many rows. No name and no topic of one split stands in another."""
    sizes = {"train": train, "validation": validation, "test": test}
    splits = {name: rows(name, size, seed) for name, size in sizes.items()}
    notes = ("names and topics of the held-out rows are in no training row",)
    return Task(name="builtin:notes", metric=metric.METRICS["rouge-l"], notes=notes, **splits)


def rows(split: str, num_rows: int, seed: int) -> list[Row]:
    """Rows of one split; the first n are the same however many are asked for."""
    rng = random.Random(f"builtin:notes {split} {seed}")
    names = pool(notes_words.NAMES.split(), split)
    topics = {slot: pool(words.split(", "), split) for slot, words in notes_words.TOPICS.items()}
    made = []
    for i in range(num_rows):
        dialogue, summary = _note(rng, rng.choice(notes_scene.SCENES), _slots(rng, names, topics))
        messages = conversation.pair(f"{dialogue}\n\n{_INSTRUCTION}", summary)
        made.append(Row(id=f"{split}/{i}", messages=messages))
    return made


def pool(words: Sequence[str], split: str) -> list[str]:
    """The words of one split: no word is in two of them."""
    return [word for place, word in enumerate(words) if place % 10 in _SHARES[split]]


def _slots(rng: random.Random, names: list[str], topics: dict[str, list[str]]) -> dict[str, str]:
    """A filling of every slot a scene may have."""
    speakers = dict(zip("abc", rng.sample(names, 3), strict=True))
    days = dict(zip(("day", "day2"), rng.sample(notes_words.DAYS.split(", "), 2), strict=True))
    reason = rng.choice(notes_words.REASONS.split(", "))
    others = {slot: rng.choice(words) for slot, words in topics.items()}
    others |= {"place": rng.choice(notes_words.PLACES.split(", ")), "hour": rng.choice(notes_words.HOURS.split(", "))}
    return {**speakers, **days, **others, "reason": reason, "reason_i": _first_person(reason)}


def _first_person(reason: str) -> str:
    """ "have a bad cold" for "has a bad cold"."""
    verbs = {"has": "have", "is": "am", "needs": "need"}
    verb, _, rest = reason.partition(" ")
    return f"{verbs.get(verb, verb)} {rest}"


def _note(rng: random.Random, scene: notes_scene.Scene, slots: dict[str, str]) -> tuple[str, str]:
    """A dialogue and a summary in the same slots."""
    said = [(slots[speaker], rng.choice(choices)) for speaker, choices in scene.lines]
    dialogue = "\n".join(f"{name}: {_fill(text, slots)}" for name, text in said if text)
    return dialogue, _fill(rng.choice(scene.summaries), slots)


def _fill(text: str, slots: dict[str, str]) -> str:
    filled = re.sub(r"\ba (?=\{(item|event|job|thing)\})", lambda m: _article(slots[m[1]]), text).format(**slots)
    return filled[0].upper() + filled[1:]


def _article(word: str) -> str:
    return "an " if word[0] in "aeiou" else "a "
