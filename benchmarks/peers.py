"""Our decoding beside other engines: the same prompts, weights, precision and lengths, in turns, in one run.

    python benchmarks/peers.py BUNDLE --work SOMEWHERE --vllm PYTHON --llama PYTHON

BUNDLE is what `draftune tune` or main_job.py left. --vllm and --llama name the python of an environment that has the
engine; an engine that is not installed is skipped by name. Every engine lives in a process of its own and sleeps while
another answers. Each answers a prompt twice, once with one token: the difference is its decode-only time. A table is
printed; a JSON of figures and a plot are written beside this file.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from kept import keep

WORKER = Path(__file__).with_name("peer_worker.py")
NOT_INSTALLED = 3
PLAIN, LOOKUP = "draftune, plain", 5  # drafts a round of the other engines' lookup
MERGED = "merged"


@dataclasses.dataclass
class Peer:
    """An engine at work, and how it fared by prompt."""

    name: str
    process: subprocess.Popen[str]
    firsts: list[float] = dataclasses.field(default_factory=list)  # seconds to one token
    wholes: list[float] = dataclasses.field(default_factory=list)
    counts: list[int] = dataclasses.field(default_factory=list)
    answers: list[list[int]] = dataclasses.field(default_factory=list)

    def ask(self, prompt: Sequence[int], limit: int) -> dict[str, Any]:
        """Its answer."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"prompt": list(prompt), "max_new_tokens": limit}) + "\n")
        self.process.stdin.flush()
        return self.hear()

    def hear(self) -> dict[str, Any]:
        """Its next line."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with status {self.process.wait()}")
        return json.loads(line)

    def answer(self, prompt: Sequence[int], limit: int) -> None:
        """Answer one prompt twice and keep the times."""
        self.firsts.append(self.ask(prompt, 1)["seconds"])
        whole = self.ask(prompt, limit)
        self.wholes.append(whole["seconds"])
        self.counts.append(len(whole["tokens"]))
        self.answers.append(whole["tokens"])

    def figures(self, plain: Peer) -> dict[str, Any]:
        """Tokens a second, over all prompts and the median of them, and answers equal to ours."""
        decoded = [
            (count - 1, whole - first)
            for count, whole, first in zip(self.counts, self.wholes, self.firsts, strict=True)
            if count > 1
        ]
        return {
            "decode_tokens_per_s": sum(count for count, _ in decoded) / sum(seconds for _, seconds in decoded),
            "decode_median_tokens_per_s": statistics.median(count / seconds for count, seconds in decoded),
            "total_tokens_per_s": sum(self.counts) / sum(self.wholes),
            "total_median_tokens_per_s": statistics.median(
                count / whole for count, whole in zip(self.counts, self.wholes, strict=True)
            ),
            "first_token_s": statistics.median(self.firsts),
            "num_tokens": sum(self.counts),
            "same_as_plain": sum(one == other for one, other in zip(self.answers, plain.answers, strict=True)),
        }


def main(
    bundle: Annotated[Path, typer.Argument(help="The bundle's folder.", exists=True, file_okay=False)],
    work: Annotated[Path, typer.Option(help="Where the merged model is written.", file_okay=False)],
    vllm: Annotated[str | None, typer.Option(help="A python that has vLLM.")] = None,
    llama: Annotated[str | None, typer.Option(help="A python that has llama-cpp-python.")] = None,
    drafter: Annotated[list[str] | None, typer.Option(help="A drafter; may be given again.")] = None,
    task: Annotated[str | None, typer.Option(help="The task's rows, where not those of the bundle.")] = None,
    dtype: Annotated[str, typer.Option(help="Precision of all but the 4-bit engine.")] = "bfloat16",
    prompts: Annotated[int, typer.Option(help="Held-out prompts.")] = 20,
    num_drafts: Annotated[int, typer.Option("-k", help="K.")] = 4,
    max_new_tokens: Annotated[int, typer.Option(help="Most tokens of an answer.")] = 128,
    out: Annotated[Path, typer.Option(help="Where JSON and plot go.", file_okay=False)] = Path(__file__).parent,
) -> None:
    """Print the table and the path of the JSON."""
    from draftune.bench import machine

    prepared = prepare(bundle, work, task, dtype, prompts, max_new_tokens)
    threads, names = machine.describe("cpu").num_cores, drafter or prepared["drafters"][:1]
    common = {"bundle": str(bundle), "model": str(work / MERGED), "dtype": dtype, "stops": prepared["stops"]}
    common |= {"threads": threads, "num_drafts": num_drafts}
    peers, skipped = start(wanted(work, common, names, vllm, llama))
    for number, (prompt, limit) in enumerate(zip(prepared["prompts"], prepared["limits"], strict=True)):
        for peer in peers if number % 2 == 0 else reversed(peers):
            if number == 0:
                peer.ask(prompt, min(16, limit))  # warm
            peer.answer(prompt, limit)
        typer.echo(f"{number + 1} of {len(prepared['prompts'])} prompts", err=True)
    found = {peer.name: peer.figures(peers[0]) for peer in peers}
    for peer in peers:
        peer.process.communicate()  # no more lines: it ends, and whatever it started
    typer.echo(table(found))
    short = prepared["task"].split(":")[0]
    figures = {
        "task": prepared["task"],
        "dtype": dtype,
        "num_drafts": num_drafts,
        "tau": {name: prepared["tau"](name, num_drafts) for name in names},
        "num_prompts": len(prepared["prompts"]),
        "skipped": skipped,
        "peers": found,
    }
    path = keep(out, f"peers-{short}", figures)
    draw(found, path.with_suffix(".png"), short)
    typer.echo(path)


def prepare(
    folder: Path, work: Path, task: str | None, dtype: str, num_prompts: int, max_new_tokens: int
) -> dict[str, Any]:
    """Write the merged model where every engine can read it; the prompts, and for each the length of its answer."""
    from draftune.bench import BenchConfig
    from draftune.bench.run import make_requests
    from draftune.data import open_task
    from draftune.decode.loop import DecodeConfig, Decoder
    from draftune.decode.plain import PlainDecoder
    from draftune.decode.tally import Tally
    from draftune.export import bundle
    from draftune.target import lora

    opened = bundle.read(folder, dtype=dtype)
    spec, merged = task or opened.card.task, lora.merge(opened.target)
    if not (work / MERGED).exists():
        merged.causal.save_pretrained(work / MERGED)
        merged.tokenizer.save_pretrained(work / MERGED)
    config = BenchConfig(num_prompts=num_prompts, max_new_tokens=max_new_tokens)
    requests, runner = make_requests(merged, open_task(spec), config), merged.runner()
    answers = [PlainDecoder(runner).generate([request])[0] for request in requests]

    def tau(name: str, num_drafts: int) -> float:
        decoder = Decoder(runner, opened.drafters[name], DecodeConfig(num_drafts=num_drafts))
        return Tally.of([decoder.generate([request])[0] for request in requests]).tau

    return {
        "task": spec,
        "stops": list(requests[0].stop_tokens),
        "prompts": [request.prompt for request in requests],
        "limits": [len(answer.tokens) for answer in answers],
        "drafters": list(opened.drafters),
        "tau": tau,
    }


def wanted(
    work: Path, common: dict[str, Any], drafters: Sequence[str], vllm: str | None, llama: str | None
) -> dict[str, tuple[str, dict[str, Any]]]:
    """By name the python and the settings of each engine."""
    here = sys.executable
    found: dict[str, tuple[str, dict[str, Any]]] = {PLAIN: (here, {"engine": "draftune"})}
    for name in drafters:
        found[f"draftune, {name}"] = (here, {"engine": "draftune", "drafter": name})
        found[f"draftune, {name}, adaptive"] = (here, {"engine": "draftune", "drafter": name, "adaptive": True})
    found["transformers"] = (here, {"engine": "transformers"})
    found["transformers, lookup"] = (here, {"engine": "transformers", "lookup": LOOKUP})
    for kind in ("bf16", "q4_1"):
        file = {"engine": "llama.cpp", "file": str(gguf_file(work, kind))}
        found[f"llama.cpp {kind}"] = (llama or here, file)
        found[f"llama.cpp {kind}, lookup"] = (llama or here, file | {"lookup": LOOKUP})
    found["vLLM"] = (vllm or here, {"engine": "vllm"})
    return {name: (python, common | settings) for name, (python, settings) in found.items()}


def gguf_file(work: Path, kind: str) -> Path:
    """The merged model as .gguf, made once."""
    import gguf
    from gguf_file import write

    path = work / f"{kind}.gguf"
    return path if path.exists() else write(work / MERGED, path, gguf.GGMLQuantizationType[kind.upper()])


def start(wanted: Mapping[str, tuple[str, dict[str, Any]]]) -> tuple[list[Peer], list[str]]:
    """The engines that came up, one after another; the names of those that are not installed."""
    peers, skipped = [], []
    for name, (python, settings) in wanted.items():
        process = subprocess.Popen(
            [python, str(WORKER), json.dumps(settings)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        peer = Peer(name, process)
        try:
            peer.hear()
        except RuntimeError:
            if process.wait() != NOT_INSTALLED:
                raise
            skipped.append(name)
            typer.echo(f"skipped: {name} is not installed", err=True)
            continue
        typer.echo(f"ready: {name}", err=True)
        peers.append(peer)
    return peers, skipped


def table(found: Mapping[str, dict[str, Any]]) -> str:
    """One line for each engine, the fastest first; medians over the prompts."""
    lines = [f"{'engine':34} {'decode tok/s':>12} {'whole tok/s':>12} {'first token':>12} {'same text':>10}"]
    for name, one in sorted(found.items(), key=lambda pair: -pair[1]["decode_median_tokens_per_s"]):
        speeds = f"{one['decode_median_tokens_per_s']:12.1f} {one['total_median_tokens_per_s']:12.1f}"
        lines.append(f"{name:34} {speeds} {1000 * one['first_token_s']:9.0f} ms {one['same_as_plain']:10}")
    return "\n".join(lines)


def draw(found: Mapping[str, dict[str, Any]], path: Path, task: str) -> None:
    """The same as bars."""
    from matplotlib.figure import Figure

    names = sorted(found, key=lambda name: found[name]["decode_median_tokens_per_s"])
    figure = Figure(figsize=(8, 0.4 * len(names) + 1.2), layout="constrained")
    axes = figure.subplots()
    colours = ["tab:blue" if name.startswith("draftune") else "tab:gray" for name in names]
    bars = axes.barh(names, [found[name]["decode_median_tokens_per_s"] for name in names], color=colours)
    axes.bar_label(bars, fmt="%.0f", padding=3)
    axes.set_xlabel("tokens per second, the prompt's reading apart, median of the prompts")
    axes.set_title(f"SmolLM2-135M tuned on {task}, one answer at a time")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    typer.run(main)
