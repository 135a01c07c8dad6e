"""How near decoding comes to the limit of memory: a plain step and a drafted round against reading the weights once.

    python benchmarks/gpu.py --device cuda

The model is a random Llama of 1.2 billion weights in bfloat16 (the shape of Llama-3.2-1B) unless --model names a real
one; the drafter is not trained, since its time does not depend on what it learned. The bandwidth is that of a large
copy, measured in the same run. One JSON of figures is written beside this file.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from kept import HERE, keep

SHAPE = {
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}
CONTEXT, COPIED = 256, 512 * 1024 * 1024  # tokens before the steps; bytes of the copy


def main(
    device: Annotated[str, typer.Option(help="cuda, or cpu to try the script.")] = "cuda",
    model: Annotated[str | None, typer.Option(help="A real model in place of the random one.")] = None,
    drafter: Annotated[str, typer.Option(help="The drafter.")] = "semiar-gru",
    num_drafts: Annotated[int, typer.Option("-k", help="K.")] = 4,
    vocabulary: Annotated[int, typer.Option(help="Tokens that the drafter predicts over.")] = 4096,
    layers: Annotated[int | None, typer.Option(help="Fewer layers, to try the script.")] = None,
    turns: Annotated[int, typer.Option(help="Measurements of each kind.")] = 30,
    out: Annotated[Path, typer.Option(help="Where the JSON goes.", file_okay=False)] = HERE,
) -> None:
    """Print milliseconds and shares of the limit, and the path of the JSON."""
    import torch

    from draftune.bench import machine
    from draftune.drafters.table import DRAFTERS
    from draftune.drafters.vocabulary import Vocabulary
    from draftune.target.load import load

    target = load(model, dtype="bfloat16", device=device) if model else random(device, layers)
    ids = torch.arange(min(vocabulary, target.shape.vocab_size))
    module = DRAFTERS.load(drafter)().build(target.parts(), Vocabulary(ids, target.shape.vocab_size)).eval()
    found = {}
    kinds = ("graphs", "general") if device == "cuda" else ("auto", "general")
    for kind in kinds:
        for name, action in steps(target, kind, module, num_drafts).items():
            found[f"{kind}, {name}"] = median_s(action, device, turns)
    weights = {weight.data_ptr(): weight.numel() * weight.element_size() for weight in target.causal.parameters()}
    big = torch.ones(COPIED // 2, dtype=torch.bfloat16, device=device)
    bandwidth = 2 * COPIED / median_s(big.clone, device, turns)
    limit_s = sum(weights.values()) / bandwidth
    for name, seconds in found.items():
        typer.echo(f"{name:32} {1000 * seconds:8.2f} ms   {limit_s / seconds:5.0%} of the limit")
    figures: dict[str, Any] = {
        "model": model or "random Llama",
        "device": machine.describe(device).gpu or device,
        "weights_bytes": sum(weights.values()),
        "bandwidth_bytes_per_s": bandwidth,
        "limit_s": limit_s,
        "num_drafts": num_drafts,
        "seconds": found,
        "share_of_limit": {name: limit_s / seconds for name, seconds in found.items()},
    }
    typer.echo(keep(out, f"gpu-{device}", figures))


def random(device: str, layers: int | None) -> Any:
    """A target of random weights; it cannot speak, so it has no tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig

    from draftune.target.target import Target

    config = LlamaConfig(**SHAPE | ({} if layers is None else {"num_hidden_layers": layers}))  # type: ignore[arg-type]
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    return Target(model.eval().requires_grad_(False), None, "random Llama")


def steps(target: Any, kind: str, drafter: Any, num_drafts: int) -> dict[str, Callable[[], object]]:
    """A plain step and a drafted round, again and again."""
    import torch

    from draftune.decode.loop import DecodeConfig, Decoder
    from draftune.types import Request

    runner = target.runner(kind)
    request = Request(id="0", prompt=tuple(range(1, 1 + CONTEXT)), max_new_tokens=2000)

    def plain() -> None:
        runner.forward(token)
        runner.commit(none)

    token, none = torch.ones(1, 1, dtype=torch.int64, device=runner.device), torch.zeros(1, dtype=torch.int64)
    session = Decoder(target.runner(kind), drafter, DecodeConfig(num_drafts=num_drafts)).start([request])
    runner.open(1, CONTEXT + 64, ())
    runner.prefill([list(request.prompt)])
    return {"plain step": plain, f"round of {num_drafts} drafts": session.step}


def median_s(action: Callable[[], object], device: str, turns: int) -> float:
    """Seconds."""
    import torch

    times = []
    for _ in range(turns + 5):
        start = time.perf_counter()
        action()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[5:])


if __name__ == "__main__":
    typer.run(main)
