"""Which rows make up which step: shuffled buckets, sorted by length inside, so that batches hold little padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from draftune.train import seed

BUCKET = 16  # batches whose rows are sorted together


def batches(lengths: Sequence[int], rows: Sequence[int], size: int, max_tokens: int, *names: object) -> list[list[int]]:
    """`rows` in batches of at most `size`, in an order that the names decide.

    A batch whose rows, padded to the longest, would hold more than `max_tokens` is split; a row is never dropped.
    """
    order = [rows[index] for index in seed.shuffled(len(rows), *names)]
    made: list[list[int]] = []
    for start in range(0, len(order), size * BUCKET):
        bucket = sorted(order[start : start + size * BUCKET], key=lambda row: (lengths[row], row))
        made += _split(bucket, lengths, size, max_tokens)
    return [made[index] for index in seed.shuffled(len(made), *names, "order")]


def _split(rows: Sequence[int], lengths: Sequence[int], size: int, max_tokens: int) -> Iterator[list[int]]:
    batch: list[int] = []
    for row in rows:
        if batch and (len(batch) == size or (len(batch) + 1) * max(lengths[row], lengths[batch[-1]]) > max_tokens):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


class Plan:
    """The steps of a stage: `epochs` passes over `lengths` rows.

    Where the target's features are kept (`first` given), the first pass goes over those fixed groups of rows, each
    computed by one forward; later passes mix the rows in `mixed` freely and leave the other groups whole, since
    their features are computed again. So a resumed run computes every feature in the very batch it was first
    computed in, and its numbers are the same to the last bit.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        epochs: int,
        size: int,
        max_tokens: int,
        *names: object,
        first: Sequence[list[int]] | None = None,
        kept: Sequence[bool] = (),
    ) -> None:
        self.lengths, self.epochs, self.size, self.max_tokens, self.names = lengths, epochs, size, max_tokens, names
        self.first, self.kept = first, kept
        self.cut: int | None = None  # groups of the first pass that a time budget left room for
        self.total = self._count()

    def epoch(self, number: int) -> list[list[int]]:
        """The batches of one pass."""
        names = (*self.names, number)
        if self.first is None:
            return batches(self.lengths, range(len(self.lengths)), self.size, self.max_tokens, *names)
        groups = list(self.first[: self.cut])
        if number == 0:
            return groups
        mixed = [row for group, kept in zip(groups, self.kept, strict=False) if kept for row in group]
        made = batches(self.lengths, mixed, self.size, self.max_tokens, *names)
        made += [group for group, kept in zip(groups, self.kept, strict=False) if not kept]
        return [made[index] for index in seed.shuffled(len(made), *names, "groups")]

    def steps(self, start: int = 0) -> Iterator[tuple[int, int, list[int]]]:
        """(step, epoch, rows) from step `start` on."""
        step = 0
        for number in range(self.epochs):
            for index, rows in enumerate(self.epoch(number)):
                if number == 0 and self.cut is not None and index >= self.cut:
                    break
                if step >= start:
                    yield step, number, rows
                step += 1

    def cut_first(self, num_groups: int) -> None:
        """End the first pass after `num_groups` groups; later passes go over those alone."""
        self.cut = num_groups
        self.total = self._count()

    def _count(self) -> int:
        return sum(len(self.epoch(number)) for number in range(self.epochs))
