"""The judge of a batch: its requests' temperatures, seeds and rules, applied to logits of target and drafter."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch
from torch import Tensor

from draftune import errors
from draftune.decode import noise, rules, sampling
from draftune.types import Draft, Request, Rule, Verdict


class Judge:
    """Decides tokens for B rows. `match` rows share their noise with the drafter, `rejection` rows do not.

    With rule "auto" a row is judged by `match` where it is greedy or has a seed, else by `rejection`, which accepts
    more. A row without a seed gets a random one. Greedy batches need neither noise nor float64.
    """

    def __init__(self, requests: Sequence[Request], rule: Rule, vocab_size: int, device: torch.device | str) -> None:
        pairs = [(secrets.randbits(63) if r.seed is None else r.seed, r.sample) for r in requests]
        self.place = noise.place(device)
        self.key_B = noise.keys(pairs, self.place)
        self.temperature_B = torch.tensor([r.temperature for r in requests], dtype=torch.float64, device=self.place)
        self.ids_V = torch.arange(vocab_size, device=self.place)
        rejects = [_rejects(request, rule) for request in requests]
        self.rejects_B = torch.tensor(rejects, device=self.place)
        self.any_rejects = any(rejects)
        self.greedy = not any(r.temperature > 0 for r in requests)
        self.any_gumbel = any(r.temperature > 0 and not rejects[i] for i, r in enumerate(requests))

    def first(self, logits_BV: Tensor, index_B: Tensor) -> Tensor:
        """[B] the target's token where nothing was drafted."""
        nothing = Draft(tokens=index_B[:, None][:, :0], num_drafted=torch.zeros_like(index_B))
        return self.judge(logits_BV[:, None], nothing, index_B, round_number=0).next_token

    def sampler(self, index_B: Tensor, round_number: int) -> RoundSampler:
        """What the drafter draws with in one round whose first draft has emitted index `index_B`."""
        return RoundSampler(self, index_B, round_number)

    def judge(self, logits_BMV: Tensor, draft: Draft, index_B: Tensor, round_number: int) -> Verdict:
        """The verdict on a draft, `logits_BMV` [B,K+1,V] being the target's on the anchor and the drafts."""
        if self.greedy:
            return rules.match(sampling.choose(logits_BMV, self.temperature_B, None), draft)
        device, (logits_BMV, index_B, draft) = index_B.device, self._moved(logits_BMV, index_B, draft)
        verdict = self._sampled(logits_BMV, draft, index_B, round_number)
        return Verdict(num_accepted=verdict.num_accepted.to(device), next_token=verdict.next_token.to(device))

    def _moved(self, logits_BMV: Tensor, index_B: Tensor, draft: Draft) -> tuple[Tensor, Tensor, Draft]:
        if index_B.device == self.key_B.device:
            return logits_BMV, index_B, draft
        return logits_BMV.to(self.place), index_B.to(self.place), draft.to(self.place)

    def _sampled(self, logits_BMV: Tensor, draft: Draft, index_B: Tensor, round_number: int) -> Verdict:
        index_BM = index_B[:, None] + torch.arange(logits_BMV.shape[1], device=index_B.device)
        gumbel = noise.gumbel(self.key_B, index_BM, self.ids_V) if self.any_gumbel else None
        matched = rules.match(sampling.choose(logits_BMV, self.temperature_B, gumbel), draft)
        if not self.any_rejects:
            return matched
        p_BMV = sampling.probabilities(logits_BMV, self.temperature_B)
        rejected = rules.rejection(p_BMV, draft, self._noise(draft, round_number))
        return Verdict(
            num_accepted=torch.where(self.rejects_B, rejected.num_accepted, matched.num_accepted),
            next_token=torch.where(self.rejects_B, rejected.next_token, matched.next_token),
        )

    def _noise(self, draft: Draft, round_number: int) -> rules.Noise:
        columns_BK = _offsets(draft.tokens, round_number)
        round_B1 = torch.full_like(draft.num_drafted, round_number)[:, None]
        return rules.Noise(
            accept=noise.uniform(self.key_B, noise.ACCEPT, columns_BK),
            final=noise.uniform(self.key_B, noise.FINAL, round_B1)[:, 0],
        )


class RoundSampler:
    """Draws draft tokens for one round; implements drafters.base.Sampler."""

    def __init__(self, judge: Judge, index_B: Tensor, round_number: int) -> None:
        self._judge, self._index_B, self._round = judge, index_B, round_number
        self.greedy = judge.greedy

    def __call__(self, logits_BV: Tensor, drafted_BK: Tensor, ids_V: Tensor | None) -> tuple[Tensor, Tensor | None]:
        judge, offset, device = self._judge, drafted_BK.shape[1], logits_BV.device
        if judge.greedy:
            column_B = sampling.choose(logits_BV, judge.temperature_B, None)
            return (column_B if ids_V is None else ids_V[column_B]), None
        logits_BV = logits_BV.to(judge.place)
        gumbel = None
        if judge.any_gumbel:
            ids = judge.ids_V if ids_V is None else ids_V.to(judge.place)
            gumbel = noise.gumbel(judge.key_B, (self._index_B.to(judge.place) + offset)[:, None], ids)[:, 0]
        column_B = sampling.choose(logits_BV, judge.temperature_B, gumbel)
        q_BV = None
        if judge.any_rejects:
            q_BV = sampling.probabilities(logits_BV, judge.temperature_B)
            key = torch.full_like(column_B, self._round * _STRIDE + offset)[:, None]
            drawn_B = sampling.draw(q_BV, noise.uniform(judge.key_B, noise.DRAFT, key)[:, 0])
            column_B = torch.where(judge.rejects_B, drawn_B, column_B)
        column_B = column_B.to(device)
        return (column_B if ids_V is None else ids_V[column_B]), q_BV


_STRIDE = 1 << 16  # more offsets than any round has


def _offsets(tokens_BK: Tensor, round_number: int) -> Tensor:
    return (torch.arange(tokens_BK.shape[1], device=tokens_BK.device) + round_number * _STRIDE).expand_as(tokens_BK)


def _rejects(request: Request, rule: Rule) -> bool:
    if request.temperature <= 0 or rule == "match":
        return False
    if rule == "rejection" and request.seed is not None:
        raise errors.ConfigError(
            doing=f"starting request {request.id!r}",
            met="rule 'rejection' with a seed: a seeded text is made by 'match'",
            todo="leave out the seed, or the rule",
        )
    return request.seed is None
