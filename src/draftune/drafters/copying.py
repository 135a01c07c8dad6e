"""`copying`: any drafter, its logits moved towards what the text before would repeat.

q_k = softmax(l_k + a [v occurred before] + sum_n b_n [v last followed the newest n tokens])

l_k are the logits of the drafter inside; a and b_n are learned. What is looked up is the verified text and the drafts
so far, never the token about to be drawn, so q is what was sampled. Names of columns and persons need no other memory.
Source: the cache model of Kuhn and De Mori 1990 in logit space; prompt lookup decoding, Saxena 2023.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from draftune import config as configs
from draftune.drafters.base import Config, DraftBatch, Drafter, Objective, Prefix, Sampler, Windows
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.target.base import TargetParts
from draftune.types import Draft, Features, Verdict

STRENGTH = 30.0  # of a bias per unit of its parameter: it must grow to about 5 at the learning rate of the rest


@dataclass(frozen=True, kw_only=True)
class CopyingConfig(Config):
    """The drafter inside, and how long a suffix is compared."""

    drafter: str = "semiar-gru"
    settings: Mapping[str, Any] = field(default_factory=dict)  # of that drafter: dotted name -> value
    num_drafts: int = 5  # for a drafter with weights for each offset; a run hands in its own K
    longest: int = 4

    def __post_init__(self) -> None:
        configs.at_least(self, doing="building a copying drafter", num_drafts=1, longest=1)

    def build(self, parts: TargetParts, vocabulary: Vocabulary) -> Copying:
        return Copying(self.inner().build(parts, vocabulary), vocabulary, self.longest)

    def for_drafts(self, num_drafts: int) -> CopyingConfig:
        self.inner()
        return replace(self, num_drafts=num_drafts)

    def inner(self) -> Config:
        """The settings of the drafter inside."""
        assignments = [f"{key}={value}" for key, value in self.settings.items()]
        doing = f"setting up the drafter {self.drafter!r} inside 'copying'"
        return configs.override(DRAFTERS.load(self.drafter)(), assignments, doing=doing).for_drafts(self.num_drafts)


@dataclass(frozen=True, kw_only=True)
class State:
    """What the drafter inside carries, and the text of each row."""

    inner: Any
    texts: Sequence[Text]


class Copying(Drafter):
    """The logits of `inner` pass through here on their way to the sampler and to the objective."""

    needs_prompt_features = True  # training rows then hold their prompts, which are what is repeated most

    def __init__(self, inner: Drafter, vocabulary: Vocabulary, longest: int) -> None:
        super().__init__()
        self.inner, self.vocabulary, self.longest = inner, vocabulary, longest
        self.taps = inner.taps
        first = next(inner.parameters())
        self.seen = nn.Parameter(first.new_zeros(()))  # a / STRENGTH
        self.repeated_N = nn.Parameter(first.new_zeros(longest))  # b_n / STRENGTH
        self._columns: list[int] = vocabulary.column.tolist()

    @property
    def max_drafts(self) -> int | None:
        return self.inner.max_drafts

    def ready(self) -> Copying:
        twin = copy.copy(self)
        vars(twin)["_modules"] = {**self._modules, "inner": self.inner.ready()}
        return twin

    def begin(self, prefix: Prefix) -> State:
        rows = zip(prefix.tokens.tolist(), prefix.lengths.tolist(), prefix.anchor.tolist(), strict=True)
        texts = [Text(self.longest, [*tokens[:length], anchor]) for tokens, length, anchor in rows]
        return State(inner=self.inner.begin(prefix), texts=texts)

    def propose(self, state: State, budget_B: Tensor, sampler: Sampler) -> Draft:
        return self.inner.propose(state.inner, budget_B, _Biased(self, state.texts, sampler))

    def observe(self, state: State, draft: Draft, verdict: Verdict, features: Features) -> State:
        accepted, anchors = verdict.num_accepted.tolist(), verdict.next_token.tolist()
        for text, tokens, count, anchor in zip(state.texts, draft.tokens.tolist(), accepted, anchors, strict=True):
            text.extend([*tokens[:count], anchor])
        return State(inner=self.inner.observe(state.inner, draft, verdict, features), texts=state.texts)

    def loss(self, batch: DraftBatch, objective: Objective) -> Tensor:
        return self.inner.loss(batch, _BiasedObjective(self, batch, objective))

    def bias(self, texts: Sequence[Text], drafted: Sequence[Sequence[int]], width: int) -> Tensor:
        """[B,V'] what is added to the logits after these texts and drafts."""
        seen, *repeated = [STRENGTH * one for one in (self.seen.item(), *self.repeated_N.tolist())]
        bias_BV = torch.zeros(len(texts), width, dtype=self.seen.dtype)
        for row_V, text, tokens in zip(bias_BV, texts, drafted, strict=True):
            row_V[text.columns(self._columns)] = seen
            drawn = {self._columns[token] for token in tokens} - {-1}
            row_V[list(drawn)] = seen
            for amount, token in zip(repeated, text.repeats(tokens), strict=False):
                if self._columns[token] >= 0:
                    row_V[self._columns[token]] += amount
        return bias_BV


class Text:
    """A row's tokens, and what last followed each run of at most `longest` of them."""

    def __init__(self, longest: int, tokens: Sequence[int]) -> None:
        self.longest, self.tokens = longest, []
        self._after: dict[tuple[int, ...], int] = {}
        self._columns: tuple[Tensor, int] = torch.zeros(0, dtype=torch.int64), 0
        self.extend(tokens)

    def extend(self, tokens: Sequence[int]) -> None:
        """Go on with these tokens."""
        for token in tokens:
            self._after.update((run, token) for run in _runs(self.tokens, self.longest))
            self.tokens.append(token)

    def repeats(self, drafted: Sequence[int]) -> Iterator[int]:
        """After the text and these drafts: what last followed their last token, last two tokens, and so on."""
        text, fresh = self.tokens[-self.longest :], {}
        for token in drafted:
            fresh.update((run, token) for run in _runs(text, self.longest))
            text = [*text, token]
        for run in _runs(text, self.longest):
            token = fresh.get(run, self._after.get(run))
            if token is None:
                return
            yield token

    def columns(self, column: Sequence[int]) -> Tensor:
        """The columns of all its tokens that have one; those of earlier calls are kept."""
        known, count = self._columns
        if count < len(self.tokens):
            further = {column[token] for token in self.tokens[count:]} - {-1}
            known = torch.unique(torch.cat([known, torch.tensor(sorted(further), dtype=torch.int64)]))
            self._columns = known, len(self.tokens)
        return known


def _runs(tokens: Sequence[int], longest: int) -> Iterator[tuple[int, ...]]:
    """The last token, the last two, and so on."""
    return (tuple(tokens[-length:]) for length in range(1, min(longest, len(tokens)) + 1))


class _Biased:
    """The loop's sampler, which is shown the drafter's logits after the bias."""

    greedy = False  # the token depends on the tokens before, so the drafter inside may not take it itself

    def __init__(self, drafter: Copying, texts: Sequence[Text], sampler: Sampler) -> None:
        self._drafter, self._texts, self._sampler = drafter, texts, sampler

    def __call__(self, logits_BV: Tensor, drafted_BK: Tensor, ids_V: Tensor | None) -> tuple[Tensor, Tensor | None]:
        bias_BV = self._drafter.bias(self._texts, drafted_BK.tolist(), logits_BV.shape[1])
        return self._sampler(logits_BV + bias_BV.to(logits_BV), drafted_BK, ids_V)


class _BiasedObjective:
    """Training's objective, which is shown the drafter's logits after the same bias."""

    def __init__(self, drafter: Copying, batch: DraftBatch, objective: Objective) -> None:
        self._drafter, self._objective, self.num_drafts = drafter, objective, objective.num_drafts
        device = batch.tokens.device
        self._first_BV = _first_places(batch, drafter.vocabulary)
        self._column_BTN = _repeated(batch, drafter).to(device)

    def metrics(self) -> dict[str, tuple[float, float]]:
        return self._objective.metrics()

    def __call__(self, offset: int, logits_NV: Tensor, windows: Windows) -> Tensor:
        drafter, last = self._drafter, self._column_BTN.shape[1] - 1
        newest_N = (windows.position + offset).clamp(max=last)  # where the newest token stands that the draft may know
        seen_NV = self._first_BV[windows.row] <= newest_N[:, None]
        logits_NV = logits_NV + STRENGTH * drafter.seen * seen_NV
        column_NL = self._column_BTN[windows.row, newest_N]
        amount_NL = STRENGTH * drafter.repeated_N * (column_NL >= 0)
        logits_NV = logits_NV.scatter_add(1, column_NL.clamp(min=0), amount_NL.to(logits_NV.dtype))
        return self._objective(offset, logits_NV, windows)


def _first_places(batch: DraftBatch, vocabulary: Vocabulary) -> Tensor:
    """[B,V'] the first position of each column's token in a row; beyond the row where it holds none."""
    column_BT = vocabulary.labels(batch.tokens)
    num_rows, num_tokens = column_BT.shape
    place_BT = torch.arange(num_tokens, device=column_BT.device).expand_as(column_BT)
    first_BV = column_BT.new_full((num_rows, vocabulary.size + 1), num_tokens)
    first_BV.scatter_reduce_(1, column_BT % (vocabulary.size + 1), place_BT, "amin")  # -1 goes to the last column
    return first_BV[:, :-1]


def _repeated(batch: DraftBatch, drafter: Copying) -> Tensor:
    """[B,T,longest] the columns of what last followed the 1, 2, .. tokens up to each position; -1 for none."""
    found = torch.full((*batch.tokens.shape, drafter.longest), -1)
    for row_TN, tokens, length in zip(found, batch.tokens.tolist(), batch.lengths.tolist(), strict=True):
        text = Text(drafter.longest, [])
        for position, token in enumerate(tokens[:length]):
            text.extend([token])
            columns = [drafter._columns[token] for token in text.repeats(())]
            row_TN[position, : len(columns)] = torch.tensor(columns, dtype=torch.int64)
    return found
