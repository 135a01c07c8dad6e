"""A short trial that a model's cache gives what the model gives without one: for families nobody has proven here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from draftune import errors
from draftune.target import anatomy
from draftune.target.base import FINAL

if TYPE_CHECKING:
    from draftune.target.blocks import BlockRunner
    from draftune.target.target import Target

# By tests/target/test_runner.py.
PROVEN = frozenset({"llama", "mistral", "phi3", "qwen2", "qwen3", "gemma2", "gemma3_text"})
LENGTHS = (2, 5)  # prompt tokens of the two rows tried; the second grows by a short sliding window
LONGEST_WINDOW = 128  # tokens; longer ones are not reached by a short trial
TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-3}  # of the mean logit; an unseen window or mask costs over 0.3


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Two rows of random tokens and what the model's own forward says of them."""

    family: str
    tokens: Tensor  # [2,T]
    lengths: Tensor  # [2] tokens of the prompts among them
    logits: Tensor  # [2,T,V]
    tolerance: float  # of the mean logit


@torch.inference_mode()
def prepare(target: Target) -> Trial:
    """The trial of a target: one plain forward. Raises TargetError where the family cannot make it."""
    config = target.causal.config
    windows = [window for window in anatomy.attention(config).windows.values() if window]
    reach = max((window for window in windows if window <= LONGEST_WINDOW), default=0)
    generator = torch.Generator().manual_seed(0)
    tokens_BT = torch.randint(target.shape.vocab_size, (2, 12 + reach), generator=generator)
    target.model.eval()
    with _reporting(config.model_type):
        logits_BTV = target.causal(input_ids=tokens_BT.to(target.device), use_cache=False).logits
    return Trial(
        family=config.model_type,
        tokens=tokens_BT,
        lengths=torch.tensor(LENGTHS) + torch.tensor([0, reach]),
        logits=logits_BTV,
        tolerance=TOLERANCE.get(target.dtype, 0.1),
    )


def check(trial: Trial, runner: BlockRunner) -> None:
    """Nothing, or a TargetError where ragged blocks and a plain forward disagree, or the family cannot run them."""
    with _reporting(trial.family):
        error = _disagreement(trial, runner)
    if not error <= trial.tolerance:
        raise _refusal(trial.family, f"with it the logits of a short trial were off by {error:.0%} of their size")


@contextmanager
def _reporting(family: str) -> Iterator[None]:
    try:
        yield
    except errors.DraftuneError:
        raise
    except Exception as caught:
        raise _refusal(family, f"it failed on a short trial ({type(caught).__name__}: {caught})") from caught


@torch.inference_mode()
def _disagreement(trial: Trial, runner: BlockRunner) -> float:
    """Mean logit difference over mean logit, over a prefill and two blocks of which a part is withdrawn."""
    tokens_BT, plain_BTV, lengths_B = trial.tokens, trial.logits, trial.lengths
    runner.open(2, tokens_BT.shape[1], (FINAL,))
    step = runner.prefill([row[:length].tolist() for row, length in zip(tokens_BT, lengths_B.tolist(), strict=True)])
    pairs: list[tuple[Tensor, Tensor]] = []
    _pair(pairs, step.logits, plain_BTV, lengths_B - 1)
    for committed in ([1, 3], [3, 2]):
        block_BM = torch.stack([row[n : n + 3] for row, n in zip(tokens_BT, lengths_B.tolist(), strict=True)])
        _pair(pairs, runner.forward(block_BM).logits, plain_BTV, lengths_B)
        runner.commit(torch.tensor(committed))
        lengths_B = lengths_B + torch.tensor(committed)
    seen, wanted = (torch.cat([pair[side].flatten() for pair in pairs]).double() for side in (0, 1))
    return ((seen - wanted).abs().mean() / wanted.abs().mean()).item()


def _pair(pairs: list[tuple[Tensor, Tensor]], seen_BMV: Tensor, plain_BTV: Tensor, starts_B: Tensor) -> None:
    num_tokens = seen_BMV.shape[1]
    wanted = [row[start : start + num_tokens] for row, start in zip(plain_BTV, starts_B.tolist(), strict=True)]
    pairs.append((seen_BMV, torch.stack(wanted)))


def _refusal(family: str, met: str) -> errors.TargetError:
    return errors.TargetError(
        doing=f"preparing the key/value cache for the family {family!r}",
        met=met,
        todo=f"use one of the proven families: {', '.join(sorted(PROVEN))}",
    )
