"""A short trial that a model's cache gives what the model gives without one: for families nobody has proven here."""

from __future__ import annotations

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


def check(target: Target, runner: BlockRunner) -> None:
    """Nothing, or a TargetError where ragged blocks and a plain forward disagree, or the family cannot run them."""
    family = target.causal.config.model_type
    try:
        error = _disagreement(target, runner)
    except errors.DraftuneError:
        raise
    except Exception as caught:
        raise _refusal(family, f"it failed on a short trial ({type(caught).__name__}: {caught})") from caught
    if not error <= TOLERANCE.get(target.dtype, 0.1):
        raise _refusal(family, f"with it the logits of a short trial were off by {error:.0%} of their size")


@torch.inference_mode()
def _disagreement(target: Target, runner: BlockRunner) -> float:
    """Mean logit difference over mean logit, over a prefill and two blocks of which a part is withdrawn."""
    generator = torch.Generator().manual_seed(0)
    windows = [window for window in anatomy.attention(target.causal.config).windows.values() if window]
    reach = max((window for window in windows if window <= LONGEST_WINDOW), default=0)
    lengths_B = torch.tensor(LENGTHS) + torch.tensor([0, reach])
    tokens_BT = torch.randint(runner.shape.vocab_size, (2, 12 + reach), generator=generator)
    target.model.eval()
    plain_BTV = target.causal(input_ids=tokens_BT.to(target.device), use_cache=False).logits
    runner.open(2, 12 + reach, (FINAL,))
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
