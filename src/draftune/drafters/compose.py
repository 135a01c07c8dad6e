"""A drafter composed of a context, a recent-token model and a head: q_k = softmax(Head(Context_k, Recent_k))."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from draftune import config as configs
from draftune import errors, kernels
from draftune.drafters.base import Config, DraftBatch, Drafter, Greedy, Objective, Prefix, Sampler
from draftune.drafters.context import Context
from draftune.drafters.fused import FusedStep
from draftune.drafters.head import Head
from draftune.drafters.recent import EPSILON, Recent, normalize
from draftune.drafters.table import CONTEXTS, HEADS, RECENTS
from draftune.drafters.vocabulary import Vocabulary
from draftune.drafters.windows import windows
from draftune.kernels import Replay
from draftune.registry import Registry
from draftune.target.base import TargetParts
from draftune.types import Draft, Features, Verdict

NUM_DRAFTS = "num_drafts"  # what a part with weights for each offset calls its K


@dataclass(frozen=True, kw_only=True)
class Part:
    """The name of a part and the settings that differ from its defaults."""

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def build(self, table: Registry, *arguments: Any) -> Any:
        """The part, its settings checked by its own Config."""
        return table.load(self.kind)(self.config(table), *arguments)

    def config(self, table: Registry) -> Any:
        """The part's settings, its defaults filled in. Raises ConfigError for impossible ones."""
        kind = table.load(self.kind).Config
        return configs.make(kind, self.settings, doing=f"building the {table.kind} {self.kind!r}")


@dataclass(frozen=True, kw_only=True)
class ComposedConfig(Config):
    """Which parts a drafter is made of."""

    context: Part = Part(kind="hidden")
    recent: Part = Part(kind="recurrent")
    head: Part = Part(kind="mlp")

    def build(self, parts: TargetParts, vocabulary: Vocabulary) -> ComposedDrafter:
        context: Context = self.context.build(CONTEXTS, parts.shape)
        recent: Recent = self.recent.build(RECENTS, parts.shape)
        head: Head = self.head.build(HEADS, parts, vocabulary, recent.width)
        drafter = ComposedDrafter(context, recent, head, parts=parts, vocabulary=vocabulary)
        if not any(True for _ in drafter.parameters()):
            raise errors.ConfigError(
                doing="building a drafter",
                met=f"{self.context.kind}, {self.recent.kind} and {self.head.kind}: none of its parts can learn",
                todo="choose another context, recent-token model or head",
            )
        return drafter

    def for_drafts(self, num_drafts: int) -> ComposedConfig:
        """With one context for each of K offsets, where the context has one for each and its settings do not say."""
        for part, table in ((self.context, CONTEXTS), (self.recent, RECENTS), (self.head, HEADS)):
            part.config(table)
        context, recent = _sized(self.context, CONTEXTS, num_drafts), _sized(self.recent, RECENTS, num_drafts)
        return replace(self, context=context, recent=recent)


def _sized(part: Part, table: Registry, num_drafts: int) -> Part:
    """The part for K drafts, where it has weights for each offset and its settings do not say how many."""
    known = {one.name for one in fields(table.load(part.kind).Config)}
    if NUM_DRAFTS not in known or NUM_DRAFTS in part.settings:
        return part
    return replace(part, settings={**part.settings, NUM_DRAFTS: num_drafts})


@dataclass(frozen=True, kw_only=True)
class State:
    """What a row carries from round to round: the newest verified hidden states and the token after it."""

    hidden: Tensor  # [B,L*D]: h_t of the tapped layers, side by side
    anchor: Tensor  # [B] int64: x_{t+1}


class ComposedDrafter(Drafter):
    """Context once a round, one recent step and one head product a draft token."""

    def __init__(
        self, context: Context, recent: Recent, head: Head, *, parts: TargetParts, vocabulary: Vocabulary
    ) -> None:
        super().__init__()
        self.context, self.recent, self.head, self.vocabulary = context, recent, head, vocabulary
        self.taps = context.taps
        self._embedding_VD = parts.embedding_VD.detach()  # lent: neither copied nor moved nor saved
        self._rows: Callable[[Tensor], Tensor] | None = None  # a faster way to look up what is lent
        self._fused: FusedStep | None = None
        self._replays: dict[tuple[int, int], Replay] | None = None  # by rows and drafts
        self._dtype: torch.dtype | None = None  # of packed parts, which have no parameters to tell it by
        wide = parts.head_VD.dtype == torch.float64
        self.to(parts.head_VD.device, torch.float64 if wide else torch.float32)

    @property
    def max_drafts(self) -> int | None:
        most = [part.max_drafts for part in (self.context, self.recent) if part.max_drafts is not None]
        return min(most, default=None)

    def ready(self) -> ComposedDrafter:
        if any(one.is_cuda for one in self.parameters()):
            return self.replayed()
        if not kernels.served(*self.parameters()):
            return self
        twin = copy.copy(self)
        if FusedStep.fits(self, self._embedding_VD):
            twin._fused = FusedStep(self, self._embedding_VD)
            return twin
        parts = {"context": self.context.packed(), "recent": self.recent.packed(), "head": self.head.packed()}
        vars(twin)["_modules"] = {**self._modules, **parts}
        twin._dtype = torch.float32
        if self._embedding_VD.dtype in kernels.DTYPES and self._embedding_VD.shape[1] % kernels.LANES == 0:
            twin._rows = kernels.NormalizedRows(self._embedding_VD, EPSILON)
        return twin

    def replayed(self) -> ComposedDrafter:
        """A twin whose greedy rounds are replayed as CUDA graphs; on a CPU the same with graphs off."""
        twin = copy.copy(self)
        twin._replays = {}
        return twin

    def begin(self, prefix: Prefix) -> State:
        last_B = prefix.lengths - 1
        hidden_BLD = prefix.features.hidden[torch.arange(len(last_B)), last_B]
        return State(hidden=hidden_BLD.flatten(1), anchor=prefix.anchor)

    def propose(self, state: State, budget_B: Tensor, sampler: Sampler) -> Draft:
        num_drafts, ids_V = int(budget_B.max()), self.vocabulary.columns_or_none
        if sampler.greedy and num_drafts and (self._fused is not None or self._replays is not None):
            tokens_BK = self._greedily(state.hidden, state.anchor, num_drafts)
            return Draft(tokens=tokens_BK, num_drafted=budget_B, ids=ids_V)
        tokens_BK, probs = self._draft(state.hidden, state.anchor, num_drafts, sampler)
        q_BKV = torch.stack(probs, dim=1) if probs else None
        return Draft(tokens=tokens_BK, num_drafted=budget_B, probs=q_BKV, ids=ids_V)

    def _draft(
        self, hidden_BD: Tensor, anchor_B: Tensor, num_drafts: int, sampler: Sampler
    ) -> tuple[Tensor, list[Tensor]]:
        """K tokens a row, and what each was drawn from unless that is a point mass."""
        drafted_BK, token_B, probs = anchor_B[:, None][:, :0], anchor_B, []
        say = self._start(hidden_BD, num_drafts)
        for offset in range(num_drafts):
            token_B, q_BV = sampler(say(offset, token_B), drafted_BK, self.vocabulary.columns_or_none)
            drafted_BK = torch.cat([drafted_BK, token_B[:, None]], dim=1)
            probs += [] if q_BV is None else [q_BV]
        return drafted_BK, probs

    def _greedily(self, hidden_BD: Tensor, anchor_B: Tensor, num_drafts: int) -> Tensor:
        """The likeliest tokens [B,K], in one call of the kernel or one replay of a graph."""
        if self._fused is not None:
            return self._fused.draft(hidden_BD, anchor_B, num_drafts, self.vocabulary.columns_or_none)
        assert self._replays is not None
        key = (len(anchor_B), num_drafts)
        if key not in self._replays:
            self._replays[key] = Replay(
                lambda hidden_BD, anchor_B: [self._draft(hidden_BD, anchor_B, num_drafts, Greedy())[0]],
                capture=anchor_B.is_cuda,
            )
        return self._replays[key](hidden_BD, anchor_B)[0]

    def _start(self, hidden_BD: Tensor, num_drafts: int) -> Callable[[int, Tensor], Tensor]:
        """One round: a function from offset and newest token [B] to logits [B,V'], to be called offset by offset."""
        if self._fused is not None:
            return self._fused.start(hidden_BD)
        contexts = self.context(self._cast(hidden_BD)).unbind(1)
        if self.recent.width == 0:
            guesses = self._guesses(contexts, num_drafts)
            return lambda offset, _: guesses[offset]
        recent = self.recent.start(contexts[0])

        def say(offset: int, token_B: Tensor) -> Tensor:
            nonlocal recent
            recent, summary_BD = self.recent.step(recent, self._embed(token_B))
            return self.head(_at(contexts, offset), summary_BD)

        return say

    def _guesses(self, contexts: Sequence[Tensor], num_drafts: int) -> Sequence[Tensor]:
        """Logits [B,V'] of every offset from the contexts alone, in one product."""
        if num_drafts == 0:
            return ()
        context_KBD = torch.stack([_at(contexts, offset) for offset in range(num_drafts)])
        nothing = context_KBD.flatten(0, 1)[:, :0]
        return self.head(context_KBD.flatten(0, 1), nothing).unflatten(0, (num_drafts, -1)).unbind(0)

    def observe(self, state: State, draft: Draft, verdict: Verdict, features: Features) -> State:
        rows = torch.arange(len(verdict.num_accepted))
        hidden_BLD = features.hidden[rows, verdict.num_accepted]
        return State(hidden=hidden_BLD.flatten(1), anchor=verdict.next_token)

    def loss(self, batch: DraftBatch, objective: Objective) -> Tensor:
        spots = windows(batch, objective.num_drafts, self.vocabulary)
        hidden_NLD = batch.features.hidden[spots.row, spots.position]
        contexts = self.context(self._cast(hidden_NLD.flatten(1))).unbind(1)
        summaries_NKD = self.recent.unroll(contexts[0], self._embed(spots.tokens[:, :-1]))
        total = contexts[0].new_zeros(())
        for offset in range(objective.num_drafts):
            logits_NV = self.head(_at(contexts, offset), summaries_NKD[:, offset])
            total = total + objective(offset + 1, logits_NV, spots)
        return total

    def _embed(self, tokens: Tensor) -> Tensor:
        if self._rows is not None:
            return self._rows(tokens)
        return normalize(self._cast(F.embedding(tokens, self._embedding_VD)))

    def _cast(self, x: Tensor) -> Tensor:
        return x.to(self._dtype or next(self.parameters()).dtype)


def _at(contexts: Sequence[Tensor], offset: int) -> Tensor:
    """The context [B,D] of an offset: its own, or the one of all."""
    if len(contexts) == 1:
        return contexts[0]
    if offset >= len(contexts):
        raise errors.ConfigError(
            doing="drafting",
            met=f"K = {offset + 1} from a drafter with {len(contexts)} heads",
            todo="ask for fewer drafts or train with more heads",
        )
    return contexts[offset]
