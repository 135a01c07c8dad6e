"""What a benchmark found, as frozen records that go to JSON and come back. Figures only, unless text is asked for.

Seconds are wall-clock. "Decode-only" leaves out the prefill and the token it yields, "end-to-end" counts all.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from draftune import config as configs
from draftune import errors
from draftune.bench.config import BenchConfig

PLAIN = "plain"
LINE = 320  # characters of one line of JSON
FORMAT = 1  # of the JSON; raised when a field changes its meaning


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A figure and its 95 % bootstrap interval over `count` prompts (over batches where they were decoded together)."""

    value: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, kw_only=True)
class Seconds:
    """Wall-clock time by what it was spent on; `other` is the rest, so the four add up to the whole."""

    prefill: float = 0.0
    draft: float = 0.0
    verify: float = 0.0
    other: float = 0.0

    @property
    def decode(self) -> float:
        """All but the prefill."""
        return self.draft + self.verify + self.other

    @property
    def total(self) -> float:
        """End to end."""
        return self.prefill + self.decode

    def __add__(self, more: Seconds) -> Seconds:
        return Seconds(**{name: value + getattr(more, name) for name, value in dataclasses.asdict(self).items()})


@dataclass(frozen=True, kw_only=True)
class Lap:
    """One batch of prompts (one prompt, by default) answered by one decoder."""

    ids: tuple[str, ...]
    num_prompt_tokens: int
    num_tokens: int  # emitted, the first of each answer included
    num_rounds: int
    seconds: Seconds

    @property
    def num_decoded(self) -> int:
        """Emitted tokens without each answer's first, which the prefill yields."""
        return self.num_tokens - len(self.ids)


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Tokens per second: over the whole run, and the median over prompts."""

    decode_tokens_per_s: float | None  # None where no answer was longer than one token
    decode_median_tokens_per_s: float | None
    total_tokens_per_s: float
    total_median_tokens_per_s: float


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """How drafts were judged; sums and counts beside the rates made of them."""

    tau: float | None  # emitted per round, averaged; None where there was no round
    acceptance_rate: float | None  # accepted / drafted; only comparable at equal K
    alpha: tuple[float | None, ...]  # [K] P(draft k accepted | drafts 1..k-1 were); None where none was reached
    reached: tuple[int, ...]  # [K] rounds that reached draft k: the count behind alpha
    histogram: tuple[int, ...]  # [K+1] rounds by number of accepted drafts
    num_rounds: int
    num_drafted: int
    num_accepted: int
    num_emitted: int


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first place where a drafted answer leaves the plain one."""

    id: str
    index: int  # 0-based among the emitted tokens


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Of how many prompts the token ids were those of plain decoding."""

    num_identical: int
    num_prompts: int
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """What one decoder did with all prompts. The last fields compare it with plain decoding, which has none."""

    name: str
    num_tokens: int
    num_decoded: int
    num_stopped: int  # answers that ended by themselves, not by the limit of length
    seconds: Seconds
    rates: Rates
    score: Interval
    device_peak_bytes: int | None  # of the accelerator's memory; None on a CPU
    laps: tuple[Lap, ...]
    acceptance: Acceptance | None = None
    identity: Identity | None = None  # None also where sampled text keeps only its law
    speedup_decode: Interval | None = None  # ratios of tokens per second
    speedup_total: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where it ran and with what."""

    cpu: str
    num_cores: int  # that this process may use
    num_threads: int  # of torch
    memory_bytes: int
    gpu: str | None
    system: str
    versions: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A stretch of an answer's text that came in one token (or in several, where one holds half a character)."""

    text: str
    offset: int  # 1..K: the draft offset that was accepted; 0 = chosen by the target


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A drafted answer to be shown: the only record with a row's text."""

    id: str
    drafter: str
    question: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, kw_only=True)
class Report:
    """One run: the same held-out prompts by plain decoding and by each drafter, with the task's score beside."""

    task: str
    metric: str
    target: str
    fingerprint: str
    dtype: str
    device: str
    settings: BenchConfig
    num_prompts: int
    plain: Decoded
    drafted: Mapping[str, Decoded]
    scores: Mapping[str, Interval]  # of plain answers: "tuned" or "joint", this target's; where known "base" and others
    machine: Machine
    process_peak_bytes: int
    seconds: float  # the whole benchmark, warm-up included
    date: str  # UTC, ISO 8601
    command: str
    git: str | None
    notes: tuple[str, ...] = ()  # what a reader must know of the rows, as an overlap of test and training
    answers: tuple[Answer, ...] = ()
    runner: str = "general"  # how the target was read, plainly and drafted alike
    format: int = field(default=FORMAT)

    @property
    def best(self) -> Decoded | None:
        """The drafter that answers fastest end to end; None where none was measured."""
        return max(self.drafted.values(), key=lambda one: one.rates.total_tokens_per_s, default=None)

    def to_dict(self, *, include_text: bool = False) -> dict[str, Any]:
        """Plain data for JSON; without `include_text` no row's text is in it."""
        shown = self if include_text else dataclasses.replace(self, answers=())
        return configs.to_dict(shown)

    def to_json(self, *, include_text: bool = False) -> str:
        """The report for machines, figures by name."""
        return dump(self.to_dict(include_text=include_text)) + "\n"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, doing: str = "reading a benchmark report") -> Report:
        """The report that `to_dict` wrote. Raises ConfigError for missing, unknown or ill-typed fields."""
        if data.get("format") != FORMAT:
            met = f"format {data.get('format')!r} where {FORMAT} is understood"
            raise errors.ConfigError(doing=doing, met=met, todo="read it with the version that wrote it")
        return configs.make(cls, data, doing=doing)

    @classmethod
    def from_json(cls, text: str, *, doing: str = "reading a benchmark report") -> Report:
        """The report that `to_json` wrote."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            todo = "give the JSON file that the benchmark wrote"
            raise errors.DataError(doing=doing, met=f"no JSON (line {error.lineno})", todo=todo) from error
        if not isinstance(data, dict):
            raise errors.DataError(doing=doing, met=f"a {type(data).__name__}", todo="give the report's JSON object")
        return cls.from_dict(data, doing=doing)


def dump(value: Any, indent: str = "") -> str:
    """JSON with a line for each thing that fits on one, so that a file of figures can be read and compared."""
    flat = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if len(indent) + len(flat) <= LINE or not value or not isinstance(value, dict | list):
        return flat
    deeper = indent + " "
    if isinstance(value, dict):
        items = [f"{json.dumps(key, ensure_ascii=False)}: {dump(item, deeper)}" for key, item in value.items()]
    else:
        items = [dump(item, deeper) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + "\n" + ",\n".join(deeper + item for item in items) + "\n" + indent + closing
