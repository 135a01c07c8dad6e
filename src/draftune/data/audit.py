"""An audit: what a set of examples will teach, and what of it must be known before training starts."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from draftune import errors
from draftune.data import template
from draftune.types import Example, Row

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NGRAM = 8  # learned tokens; about five words


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """How much of the held-out examples the training examples already hold."""

    num_held_out: int
    same: tuple[str, ...]  # ids of held-out examples whose every token is also a training example
    same_prompt: tuple[str, ...]  # ids whose prompt is also a training prompt (the above included)
    ngrams: tuple[int, int]  # (found in training answers, all) n-grams of the held-out answers

    @property
    def ngram_share(self) -> float:
        """Part of the held-out answers' n-grams that training answers hold, 0..1."""
        return self.ngrams[0] / max(self.ngrams[1], 1)

    def sentences(self) -> tuple[str, ...]:
        """What a held-out split shares with training, in words."""
        asked = tuple(name for name in self.same_prompt if name not in set(self.same))
        found = []
        for ids, what in ((self.same, "are training rows too"), (asked, "ask what a training row asks")):
            if ids:
                found.append(f"{len(ids):,} of {self.num_held_out:,} held-out rows {what}: {', '.join(ids[:3])}")
        return (*found, f"{self.ngram_share:.1%} of the held-out answers' {NGRAM}-grams occur in training answers")


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Counts of one split; `sentences()` says them to a person."""

    num_rows: int
    num_examples: int
    too_long: tuple[str, ...]  # ids of rows left out because they exceed max_length
    max_length: int | None
    num_tokens: int
    num_learned: int
    longest: int  # tokens
    num_duplicates: int  # examples that repeat an earlier one
    num_answers: int  # assistant turns of the examples
    num_answers_learned: int
    overlap: Overlap | None = None

    @property
    def learned_share(self) -> float:
        """Learned tokens of all tokens, 0..1."""
        return self.num_learned / max(self.num_tokens, 1)

    def sentences(self) -> tuple[str, ...]:
        """The audit in words: always the counts, and what is amiss only where it is."""
        return tuple(_sentences(self))


def encode_all(rows: Sequence[Row], tokenizer: PreTrainedTokenizerBase, max_length: int) -> tuple[list[Example], Audit]:
    """The examples of the rows that fit `max_length` tokens, and their audit, which counts those that do not.

    Raises DataError where a row cannot be encoded, where no row fits, and where a mask is empty or full.
    """
    chat = template.ChatTemplate.of(tokenizer)
    examples, too_long, num_answers = [], [], 0
    for row in rows:
        try:
            examples.append(chat.encode(row, max_length=max_length))
            num_answers += sum(message.role == "assistant" for message in row.messages)
        except template.TooLongError as error:
            too_long.append((row.id, error))
    if not examples:
        met = f"none of {len(rows)} rows fits {max_length} tokens" if rows else "there are no rows"
        first = too_long[0][1] if too_long else None
        raise errors.DataError(doing="encoding rows", met=met, todo="raise max_length or shorten the rows") from first
    return examples, audit(
        examples, too_long=[row_id for row_id, _ in too_long], max_length=max_length, num_answers=num_answers
    )


def audit(
    examples: Sequence[Example],
    *,
    held_out: Sequence[Example] | None = None,
    too_long: Sequence[str] = (),
    max_length: int | None = None,
    num_answers: int | None = None,
) -> Audit:
    """The audit of training examples, compared with `held_out` ones where they are given.

    Raises DataError where a mask is empty (nothing to learn) or full (the prompt would be learned too).
    """
    check_masks(examples)
    spans = sum(_num_spans(example.learned) for example in examples)
    return Audit(
        num_rows=len(examples) + len(too_long),
        num_examples=len(examples),
        too_long=tuple(too_long),
        max_length=max_length,
        num_tokens=sum(len(example.tokens) for example in examples),
        num_learned=sum(sum(example.learned) for example in examples),
        longest=max((len(example.tokens) for example in examples), default=0),
        num_duplicates=len(examples) - len({example.tokens for example in examples}),
        num_answers=spans if num_answers is None else num_answers,
        num_answers_learned=spans,
        overlap=None if held_out is None else overlap(examples, held_out),
    )


def overlap(train: Sequence[Example], held_out: Sequence[Example]) -> Overlap:
    """What `held_out` shares with `train`: whole examples, prompts, and n-grams of answers."""
    whole = {example.tokens for example in train}
    prompts = {prompt for example in train if (prompt := _prompt(example))}
    grams = {gram for example in train for gram in _ngrams(example)}
    held_grams = [gram for example in held_out for gram in _ngrams(example)]
    return Overlap(
        num_held_out=len(held_out),
        same=tuple(example.id for example in held_out if example.tokens in whole),
        same_prompt=tuple(example.id for example in held_out if _prompt(example) in prompts),
        ngrams=(sum(gram in grams for gram in held_grams), len(held_grams)),
    )


def check_masks(examples: Iterable[Example]) -> None:
    """Raises DataError for the first example whose mask is empty, full, or not as long as its tokens."""
    for example in examples:
        num_learned, num_tokens = sum(example.learned), len(example.tokens)
        if len(example.learned) != num_tokens:
            met = f"its mask has {len(example.learned)} places for {num_tokens} tokens"
        elif num_learned == 0:
            met = f"none of its {num_tokens} tokens is marked to be learned"
        elif num_learned == num_tokens:
            met = f"all of its {num_tokens} tokens are marked to be learned, the prompt among them"
        else:
            continue
        todo = "look at it with 'draftune data show' and correct the row or the chat template"
        raise errors.DataError(doing=f"checking the loss mask of row {example.id}", met=met, todo=todo)


def token_counts(examples: Iterable[Example]) -> Counter[int]:
    """How often each token id is learned: what a domain vocabulary is made from."""
    counts: Counter[int] = Counter()
    for example in examples:
        counts.update(token for token, learned in zip(example.tokens, example.learned, strict=True) if learned)
    return counts


def in_words(row: Row) -> Example:
    """A row as an example of words (hashed), where no tokenizer is at hand: good for `overlap` and nothing else."""
    tokens: list[int] = []
    learned: list[bool] = []
    for message in row.messages:
        words = [message.role, *message.content.split()]
        tokens += [zlib.crc32(word.encode()) for word in words]
        learned += [False, *[message.role == "assistant"] * (len(words) - 1)]
    return Example(id=row.id, tokens=tuple(tokens), learned=tuple(learned))


def _prompt(example: Example) -> tuple[int, ...]:
    """Tokens before the last answer."""
    end = len(example.tokens)
    while end and example.learned[end - 1]:
        end -= 1
    return example.tokens[:end]


def _ngrams(example: Example) -> Iterator[tuple[int, ...]]:
    """Windows of NGRAM tokens in which all are learned."""
    for i in range(len(example.tokens) - NGRAM + 1):
        if all(example.learned[i : i + NGRAM]):
            yield example.tokens[i : i + NGRAM]


def _num_spans(learned: Sequence[bool]) -> int:
    """Runs of True: 2 for F T T F T."""
    return sum(now and not before for before, now in zip((False, *learned), learned, strict=False))


def _sentences(found: Audit) -> Iterator[str]:
    yield (
        f"{found.num_examples:,} examples, {found.num_tokens:,} tokens, of which {found.num_learned:,} "
        f"({found.learned_share:.0%}) are learned; the longest has {found.longest:,}"
    )
    if found.too_long:
        first, share = ", ".join(found.too_long[:3]), len(found.too_long) / found.num_rows
        yield f"{len(found.too_long):,} rows ({share:.1%}) exceed {found.max_length} tokens and are left out: {first}"
    if found.num_duplicates:
        yield f"{found.num_duplicates:,} examples repeat an earlier one exactly"
    if found.num_answers_learned < found.num_answers:
        missed = found.num_answers - found.num_answers_learned
        yield f"{missed:,} earlier answers are not learned: the chat template writes them otherwise once a turn follows"
    if found.overlap is not None:
        yield from found.overlap.sentences()
