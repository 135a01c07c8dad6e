"""The records that travel through the house, each made in one room and read in others.

Row -> Example -> Features -> Draft -> Verdict -> Token -> Report.

Shape suffixes of local names, everywhere:
    B batch rows   T sequence   M tokens of one forward   K drafted   N windows or tree nodes
    V vocabulary (V' trimmed)   D width   L tapped layers   H heads
In comments p is the target's distribution and q the drafter's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Role = Literal["system", "user", "assistant"]
FinishReason = Literal["stop", "length"]
RunnerKind = Literal["auto", "general", "graphs", "packed"]  # how the target is read: the fast way where it has one
Rule = Literal["auto", "match", "rejection"]  # how drafts are judged


@dataclass(frozen=True, kw_only=True)
class Message:
    role: Role
    content: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a task: a conversation whose assistant turns are to be learned."""

    id: str  # "train/17", "rows.jsonl:18"
    messages: tuple[Message, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)  # what the task metric needs (schema, final number)

    @property
    def prompt(self) -> tuple[Message, ...]:
        """The messages before the last answer: what generation starts from."""
        return self.messages[:-1] if self.messages[-1].role == "assistant" else self.messages

    @property
    def answer(self) -> str:
        """The last assistant turn, or "" where the row has none."""
        return self.messages[-1].content if self.messages[-1].role == "assistant" else ""


@dataclass(frozen=True, kw_only=True)
class Example:
    """A row as token ids, with a mark on each token that is to be learned."""

    id: str
    tokens: tuple[int, ...]  # [T]
    learned: tuple[bool, ...]  # [T]; True where the token belongs to an answer (its end mark included)

    @property
    def prompt_length(self) -> int:
        """Tokens before the first learned one."""
        return self.learned.index(True) if True in self.learned else len(self.tokens)


@dataclass(frozen=True, kw_only=True)
class Features:
    """What the target computed and a drafter may hear: hidden states of the tapped layers."""

    ids: tuple[str, ...]  # row ids, [B]
    hidden: Tensor  # [B,M,L,D], the target's dtype
    taps: tuple[int, ...]  # [L] layer numbers, FINAL (-1) = final-norm output

    def tap(self, layer: int) -> Tensor:
        """[B,M,D] of one tapped layer."""
        return self.hidden[:, :, self.taps.index(layer)]


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Up to K guesses a row. Rows may hold fewer; what lies beyond `num_drafted` is padding."""

    tokens: Tensor  # [B,K] int64, full-vocabulary ids
    num_drafted: Tensor  # [B] int64, 0..K
    probs: Tensor | None = None  # [B,K,V'] fp32: the very q each token was drawn from; None = a point mass
    ids: Tensor | None = None  # [V'] int64: full-vocabulary id of each column of probs; None = V' is V

    def to(self, device: torch.device) -> Draft:
        """The same on a device; itself where it is there already."""
        return replace(self, **{name: None if one is None else one.to(device) for name, one in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How many drafts stand, and the token the target puts after them."""

    num_accepted: Tensor  # [B] int64, 0..num_drafted
    next_token: Tensor  # [B] int64: the next anchor


@dataclass(frozen=True, kw_only=True)
class Token:
    """One emitted token and where it came from."""

    id: str  # the request's id
    index: int  # 0-based among the emitted tokens of the request
    token: int
    round: int  # 0 = prefill
    offset: int  # 1..K: draft offset that was accepted; 0 = chosen by the target


@dataclass(frozen=True, kw_only=True)
class Request:
    """One prompt to be continued. `seed` decides the text at temperature > 0 whatever drafts for it."""

    id: str
    prompt: tuple[int, ...]  # [T] token ids
    max_new_tokens: int = 256
    temperature: float = 0.0
    seed: int | None = None
    sample: int = 0  # sample index, when several answers are drawn with one seed
    stop_tokens: frozenset[int] = frozenset()
    stop_strings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Round:
    """Counts of one round of one request, after stop rules: what lies beyond a stop is counted nowhere."""

    num_drafted: int
    num_accepted: int
    num_emitted: int


@dataclass(frozen=True, kw_only=True)
class Completion:
    """A finished request. Its first token comes from the prefill; the rest from `rounds`."""

    id: str
    tokens: tuple[int, ...]  # the stop token included
    text: str
    finish_reason: FinishReason
    rounds: tuple[Round, ...] = ()
    trail: tuple[Token, ...] = ()
