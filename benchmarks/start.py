"""How long `draftune generate` needs to its first token in a fresh process, and how much memory it takes.

    python benchmarks/start.py BUNDLE "a prompt"

Bundle and kernel lie in the cache of the disk, as they do when the model was used before. Memory is the peak of the
process beyond that of one that only imports torch and transformers, over the size of the weights. The runs take turns;
medians. One JSON of figures is written beside this file.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from kept import keep

EMPTY = "import torch, transformers, peft; print('x')"


def main(
    bundle: Annotated[Path, typer.Argument(help="The bundle's folder.", exists=True, file_okay=False)],
    prompt: Annotated[str, typer.Argument(help="What to answer.")],
    dtype: Annotated[str, typer.Option(help="Precision.")] = "bfloat16",
    turns: Annotated[int, typer.Option(help="Runs of each kind.")] = 5,
    out: Annotated[Path, typer.Option(help="Where the JSON goes.", file_okay=False)] = Path(__file__).parent,
) -> None:
    """Print the medians and the path of the JSON."""
    from draftune.bench import record
    from draftune.export import bundle as bundles

    words = [str(Path(sys.executable).with_name("draftune")), "generate", str(bundle), prompt, "--dtype", dtype]
    kinds = {"empty": [sys.executable, "-c", EMPTY], "drafted": words, "plain": [*words, "--drafter", "none"]}
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in kinds}
    for _ in range(turns):
        for name, command in kinds.items():
            found[name].append(run(command))
    opened = bundles.read(bundle, dtype=dtype)
    weights = opened.target.causal.state_dict().values()
    distinct = {weight.data_ptr(): weight.numel() * weight.element_size() for weight in weights}
    size = sum(distinct.values())
    empty = statistics.median(peak for _, peak in found["empty"])
    figures = {
        "dtype": dtype,
        "weights_bytes": size,
        "empty_process_bytes": empty,
        "first_token_s": {name: statistics.median(seconds for seconds, _ in runs) for name, runs in found.items()},
        "peak_over_weights": {
            name: (statistics.median(peak for _, peak in runs) - empty) / size for name, runs in found.items()
        },
    }
    typer.echo(record.dump(figures))
    typer.echo(keep(out, f"start-{dtype}", figures))


def run(command: list[str]) -> tuple[float, int]:
    """Seconds to the first byte on stdout, and the most memory in bytes."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout
    if not process.stdout.read(1):
        raise SystemExit(f"no output of {command}")
    seconds = time.perf_counter() - start
    process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command} left with {status}")
    return seconds, usage.ru_maxrss * 1024


if __name__ == "__main__":
    typer.run(main)
