"""Numbers from names: every random choice of a run comes from (seed, what it is for), so nothing must be stored."""

from __future__ import annotations

import hashlib
import random


def derive(*names: object) -> int:
    """A 63-bit seed that depends on every name, the same on every machine and in every process."""
    digest = hashlib.blake2b("/".join(map(str, names)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def shuffled(count: int, *names: object) -> list[int]:
    """0..count-1 in an order that the names decide."""
    order = list(range(count))
    random.Random(derive(*names)).shuffle(order)
    return order
