"""The demo: small enough for two slow cores and a few minutes, large enough to show the gain."""

from __future__ import annotations

from draftune.bench.config import BenchConfig
from draftune.train.config import TrainConfig

MODEL, TASK = "smollm2-135m", "builtin:sql"
DRAFTERS = ("semiar-lstm", "medusa")  # the first is the bundle's default
CHECK_DTYPE = "float32"  # in which not even a near-tie is expected; speed is measured in the device's own precision
NUM_DRAFTS = 4
MAX_NEW_TOKENS = 64


def training() -> TrainConfig:
    """A short LoRA run, then both drafters on the tuned model."""
    return TrainConfig(
        drafters=DRAFTERS,
        adapter_rows=280,
        adapter_epochs=1,
        drafter_rows=900,
        drafter_epochs=3,
        eval_rows=8,
        nll_rows=16,
        evaluations=1,
        num_drafts=NUM_DRAFTS,
    )


def benchmark() -> BenchConfig:
    """A few held-out prompts, answered plainly and with each drafter."""
    return BenchConfig(num_prompts=10, num_drafts=NUM_DRAFTS, max_new_tokens=MAX_NEW_TOKENS)


def check() -> BenchConfig:
    """The prompts that are decoded both ways and compared."""
    return BenchConfig(num_prompts=5, num_drafts=NUM_DRAFTS, max_new_tokens=MAX_NEW_TOKENS)
