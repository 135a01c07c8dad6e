"""A report in one sentence, and the same in a few figures."""

from __future__ import annotations

from typing import Any

from draftune.bench.record import Decoded, Identity, Report

LABELS = {"base": "base", "tuned": "tuned", "joint": "jointly tuned"}  # whose score it is


def sentence(report: Report) -> str:
    """What was found, in plain words: speed end to end, and whether the text is the same."""
    task = report.task.removeprefix("builtin:").rpartition("/")[2]
    best = report.best
    if best is None or best.speedup_total is None:
        return f"Plain decoding answers {task} at {report.plain.rates.total_tokens_per_s:.1f} tokens per second."
    return f"{best.name} answers {task} {_times(best.speedup_total.value)}, {_same(best)}."


def _times(ratio: float) -> str:
    if 0.95 <= ratio < 1.05:
        return "no faster and no slower than plain decoding"
    return f"{ratio:.1f} times faster" if ratio > 1 else f"at {ratio:.2f} times the speed of plain decoding"


def _same(best: Decoded) -> str:
    if best.identity is None:
        return "by the same law"
    return f"identical tokens on {best.identity.num_identical} of {best.identity.num_prompts} prompts"


def share(identity: Identity | None) -> str:
    """ "40/40", or a dash where sampled text keeps only its law."""
    return "–" if identity is None else f"{identity.num_identical}/{identity.num_prompts}"


def figures(report: Report) -> dict[str, Any]:
    """The headline for machines: one flat object, rounded to what the measurement can carry."""
    best = report.best
    found: dict[str, Any] = {"task": report.task, "target": report.target, "dtype": report.dtype}
    found |= {"device": report.device, "date": report.date, "num_drafts": report.settings.num_drafts}
    found |= {"plain_tokens_per_s": _round(report.plain.rates.total_tokens_per_s)}
    if best is not None:
        found |= _of_best(best)
    found |= {f"score_{name}": _round(score.value) for name, score in report.scores.items()}
    return found


def _of_best(best: Decoded) -> dict[str, Any]:
    identity = best.identity
    return {
        "drafter": best.name,
        "tokens_per_s": _round(best.rates.total_tokens_per_s),
        "speedup_total": _round(best.speedup_total and best.speedup_total.value),
        "speedup_decode": _round(best.speedup_decode and best.speedup_decode.value),
        "tau": _round(best.acceptance and best.acceptance.tau),
        "num_identical": identity and identity.num_identical,
        "num_prompts": best.score.count,
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
