"""What decoding costs on this machine, measured in some seconds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch

from draftune import errors
from draftune.decode.cost import Costs
from draftune.decode.loop import DecodeConfig, Decoder
from draftune.decode.plain import PlainDecoder
from draftune.decode.plan import Plan
from draftune.decode.remembered import remembered
from draftune.drafters.base import Drafter, Greedy, Prefix
from draftune.target.base import Runner
from draftune.types import Request

REPEATS = 7  # of each measurement, in turns; the median counts
UNKNOWN_ALPHA = 0.6  # about what a drafter trained for minutes reaches
TOKENS = 24  # emitted by the short runs that tell what lies between the phases


def calibrate(runner: Runner, drafter: Drafter, *, num_rows: int = 1, length: int = 128, most: int = 8) -> Costs:
    """The costs of this machine, measured in some seconds on random tokens.

    `length` is the context's, `most` the largest K of interest. Raises ConfigError where the model's context is too
    short for that.
    """
    most = most if drafter.max_drafts is None else min(most, drafter.max_drafts)
    if length + TOKENS + most + 1 > runner.shape.max_length:
        met = f"a context of {runner.shape.max_length} tokens where {length + TOKENS + most + 1} are needed"
        raise errors.ConfigError(doing="calibrating", met=met, todo="give a smaller length")
    prompts = torch.randint(runner.shape.vocab_size, (num_rows, length), generator=torch.Generator().manual_seed(0))
    requests = [
        Request(id=str(row), prompt=tuple(prompt), max_new_tokens=TOKENS) for row, prompt in enumerate(prompts.tolist())
    ]
    other_s, plain_other_s = _between(runner, drafter, requests, most)
    verify_s = _verify(runner, requests, most)
    once_s, all_s = _draft(runner, drafter.ready(), prompts, (1, most))
    draft_s = max(0.0, (all_s - once_s) / (most - 1)) if most > 1 else 0.0
    return Costs(
        verify_s=tuple(verify_s),
        begin_s=max(0.0, once_s - draft_s),
        draft_s=draft_s,
        plain_other_s=plain_other_s,
        other_s=other_s,
    )


def adaptive(
    runner: Runner,
    drafter: Drafter,
    *,
    num_rows: int,
    length: int,
    most: int,
    alpha: Sequence[float] = (),
    pair: tuple[object, ...] = (),
) -> Plan:
    """A plan for this machine.

    `alpha` is what is known of how drafts fare; by default about what minutes of training give. With `pair`, a name of
    target and drafter, this machine's costs are remembered from run to run.
    """
    room = runner.shape.max_length - TOKENS - most - 1
    length = max(1, min(length, room))

    def measure() -> Costs:
        return calibrate(runner, drafter, num_rows=num_rows, length=length, most=most)

    whole = (*pair, runner.kind, runner.device, torch.get_num_threads(), num_rows, length, most)
    return Plan(remembered(whole, measure) if pair else measure(), alpha or [UNKNOWN_ALPHA], most)


def _between(runner: Runner, drafter: Drafter, requests: Sequence[Request], most: int) -> tuple[float, float]:
    """Seconds a round, and a plain step, that are neither draft nor verify."""
    found = []
    for decoder in (Decoder(runner, drafter, DecodeConfig(num_drafts=most)), PlainDecoder(runner)):
        decoder.generate(requests)  # warm
        before = decoder.clock.seconds["other"]
        done = decoder.generate(requests)
        rounds = max(len(one.rounds) for one in done) or 1
        found.append((decoder.clock.seconds["other"] - before) / rounds)
    return found[0], found[1]


def _verify(runner: Runner, requests: Sequence[Request], most: int) -> list[float]:
    runner.open(len(requests), len(requests[0].prompt) + most + 1, ())
    runner.prefill([request.prompt for request in requests])
    blocks = [torch.ones(len(requests), width, dtype=torch.int64, device=runner.device) for width in range(1, most + 2)]
    return _medians([lambda block=block: runner.forward(block) for block in blocks], runner.device)


@torch.inference_mode()
def _draft(runner: Runner, drafter: Drafter, prompts_BT: torch.Tensor, widths: Sequence[int]) -> list[float]:
    num_rows, length = prompts_BT.shape
    runner.open(num_rows, length + max(widths) + 1, drafter.taps)
    features = runner.prefill(prompts_BT.tolist()).features
    tokens_BT = prompts_BT.to(runner.device)
    lengths_B = torch.full((num_rows,), length, device=runner.device)
    state = drafter.begin(
        Prefix(tokens=tokens_BT, lengths=lengths_B, features=features, anchor=tokens_BT[:, 0].clone())
    )
    budgets = [torch.full((num_rows,), width) for width in widths]
    return _medians(
        [lambda budget=budget: drafter.propose(state, budget, Greedy()) for budget in budgets], runner.device
    )


def _medians(actions: Sequence[Callable[[], object]], device: torch.device) -> list[float]:
    """The median seconds of each action, measured in turns so that a slow moment hits all alike."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    times: list[list[float]] = [[] for _ in actions]
    for turn in range(REPEATS + 1):
        for action, found in zip(actions, times, strict=True):
            start = time.perf_counter()
            action()
            wait()
            if turn:  # the first warms up
                found.append(time.perf_counter() - start)
    return [statistics.median(found) for found in times]
