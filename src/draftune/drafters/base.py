"""The Drafter contract: how the loop asks for guesses and how training asks for a loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn

from draftune.drafters.vocabulary import Vocabulary
from draftune.target.base import FINAL, TargetParts
from draftune.types import Draft, Features, Verdict


class Sampler(Protocol):
    """Draws one draft token a row; handed in by the loop, so that noise and temperature live in one place."""

    greedy: bool
    """True: it takes the largest logit, whatever was drafted before, so a drafter may take that itself."""

    def __call__(self, logits_BV: Tensor, drafted_BK: Tensor, ids_V: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The token drawn [B] (full-vocabulary ids) and the distribution q it was drawn from [B,V'] fp32.

        `drafted_BK` holds the tokens drafted before this one in the round, so its width tells the offset.
        `ids_V` names the columns of the logits (None: the whole vocabulary). q is None for a point mass.
        """
        ...


class Greedy:
    """The sampler without temperature."""

    greedy = True

    def __call__(self, logits_BV: Tensor, drafted_BK: Tensor, ids_V: Tensor | None) -> tuple[Tensor, None]:
        column_B = logits_BV.argmax(dim=-1)
        return (column_B if ids_V is None else ids_V[column_B]), None


class Objective(Protocol):
    """Scores the logits of one draft offset; handed in by training."""

    num_drafts: int  # K: offsets to unroll

    def __call__(self, offset: int, logits_NV: Tensor, windows: Windows) -> Tensor:
        """The weighted loss of draft `offset` (1-based) summed over windows, divided by the count; 0-dim."""
        ...

    def metrics(self) -> dict[str, tuple[float, float]]:
        """(sum, count) by name over all calls so far."""
        ...


@dataclass(frozen=True, kw_only=True)
class Prefix:
    """What is verified when drafting starts: the prompts as the target read them, and each row's first anchor."""

    tokens: Tensor  # [B,T] int64, right-padded prompts
    lengths: Tensor  # [B] int64
    features: Features  # hidden [B,T,L,D] of the prompt tokens
    anchor: Tensor  # [B] int64: emitted, not yet read by the target


@dataclass(frozen=True, kw_only=True)
class DraftBatch:
    """Rows to learn from, with what the target computed on them."""

    tokens: Tensor  # [B,T] int64, right-padded
    learned: Tensor  # [B,T] bool
    lengths: Tensor  # [B] int64
    features: Features  # hidden [B,T,L,D]


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Every place a round could start in a batch: context at t, anchor x_{t+1}, drafts x_{t+2}..x_{t+1+K}.

    In tokens a b c d e with c d e learned and K = 2: t = b (anchor c, drafts d e) and t = c (anchor d, draft e).
    """

    row: Tensor  # [N] int64
    position: Tensor  # [N] int64: t
    tokens: Tensor  # [N,K+1] int64: x_{t+1}..x_{t+1+K}; 0 beyond the row's end
    counted: Tensor  # [N,K] bool: draft k's token x_{t+1+k} is learned, and so are all before it
    labels: Tensor  # [N,K] int64: the draft tokens as columns of the drafter's vocabulary, -1 where it lacks them


@dataclass(frozen=True, kw_only=True)
class Config(ABC):
    """The settings of one drafter with all its defaults; knows how to build it."""

    @abstractmethod
    def build(self, parts: TargetParts, vocabulary: Vocabulary) -> Drafter:
        """A fresh drafter for the target that lends `parts`. Raises ConfigError for impossible settings."""

    def for_drafts(self, num_drafts: int) -> Config:
        """These settings for K drafts a round; the same, unless they leave open how many the drafter can make.

        Raises ConfigError or UnknownNameError for settings that are wrong whatever the target.
        """
        return self


class Drafter(nn.Module, ABC):
    """A small module that guesses what the target will say.

    `state_dict()` holds what is trained and nothing that the target lends.
    """

    taps: tuple[int, ...] = (FINAL,)
    trainable: ClassVar[bool] = True  # False: nothing to learn, as in `lookup`
    needs_prompt_features: ClassVar[bool] = False  # True: attends to the whole prompt, not to h_t alone

    @property
    def max_drafts(self) -> int | None:
        """The largest K it can draft; None means any."""
        return None

    def ready(self) -> Drafter:
        """The drafter to decode with: itself, or a twin that says the same faster on this machine."""
        return self

    @abstractmethod
    def begin(self, prefix: Prefix) -> Any:
        """The state of B rows after their prefill."""

    @abstractmethod
    def propose(self, state: Any, budget_B: Tensor, sampler: Sampler) -> Draft:
        """At most `budget_B` drafts a row, K = max(budget_B) columns; a budget of 0 drafts nothing.

        The budgets lie on the host, so that reading them waits for no device; the draft may lie anywhere.
        """

    @abstractmethod
    def observe(self, state: Any, draft: Draft, verdict: Verdict, features: Features) -> Any:
        """The state after verification. `features` [B,K+1,L,D] are of the anchor and the drafts.

        Row `num_accepted` of the features is the next h_t: 0 is the old anchor, 1 the first draft.
        """

    def loss(self, batch: DraftBatch, objective: Objective) -> Tensor:
        """The training loss, 0-dim; `objective.metrics()` holds its parts."""
        raise NotImplementedError(f"{type(self).__name__} has nothing to train")
