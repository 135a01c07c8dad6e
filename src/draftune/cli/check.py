"""`draftune check`: proof, on the user's own bundle, that drafting changes no token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from draftune import errors
from draftune.cli import desk, options

if TYPE_CHECKING:
    from draftune.bench.check import Checked, Difference
    from draftune.target.target import Target

DIFFERENT = 1  # exit code where rounding does not explain a difference


def check(
    bundle: options.Bundle,
    prompts: Annotated[int, typer.Option(min=1, help="How many held-out prompts to decode both ways.")] = 20,
    max_new_tokens: options.MaxNewTokens = 128,
    num_drafts: options.AsTrained = None,
    drafter: options.Drafter = None,
    task: options.Task = None,
    field: options.Field = None,
    runner: options.Runner = "auto",
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    base: options.Base = None,
) -> None:
    """Decode held-out prompts with the drafter and without, and compare the token ids.

    A difference is shown with both logits and their margin, and whether rounding explains it (a near-tie).
    Leaves with 1 where it does not.
    """
    from draftune.bench import check as checks
    from draftune.bench.config import BenchConfig
    from draftune.bench.run import make_requests
    from draftune.cli import rows
    from draftune.cli import voice as voices
    from draftune.decode.loop import DecodeConfig
    from draftune.export import bundle as bundles

    if drafter == voices.NO_DRAFTER:
        met, todo = "no drafter to compare with plain decoding", "name a drafter of the bundle"
        raise errors.ConfigError(doing="checking a bundle", met=met, todo=todo)
    card = bundles.read_card(bundle)
    num_drafts = card.num_drafts if num_drafts is None else num_drafts
    DecodeConfig(num_drafts=num_drafts)  # refused before a model is loaded
    kind = voices.runner_kind(runner)
    config = BenchConfig(num_prompts=prompts, max_new_tokens=max_new_tokens, num_drafts=num_drafts)
    opened = voices.open_bundle(bundle, drafter=drafter, dtype=dtype, device=device, base=base)
    requests = make_requests(opened.target, rows.held_out(card, task, field), config)
    reader = opened.target.runner(kind)
    for name, module in opened.drafters.items():
        checked = checks.check(reader, module, requests, num_drafts=num_drafts)
        tell(opened.target, checked, num_drafts, name)


def tell(target: Target, checked: Checked, num_drafts: int, drafter: str) -> None:
    """Print every difference and the summary; leave with 1 where rounding does not explain all of them."""
    for difference in checked.differences:
        desk.result(_explain(target, difference, num_drafts))
    desk.result(f"{drafter}: {_summary(checked)}")
    if checked.faults:
        raise typer.Exit(DIFFERENT)


def _explain(target: Target, difference: Difference, num_drafts: int) -> str:
    """Where the answers part with both logits, the margin, and whether rounding explains it."""
    tokens = [_text(target, token) for token in (difference.plain_token, difference.drafted_token)]
    (plain, drafted), (plain_block, drafted_block) = difference.one_row, difference.block
    verdict = "a near-tie" if difference.near_tie else "a real difference"
    return (
        f"{difference.id} differs at token {difference.index}: plain {tokens[0]}, drafted {tokens[1]}\n"
        f"  logits in a forward of 1 row {plain:.6g} and {drafted:.6g}, of {num_drafts + 1} rows"
        f" {plain_block:.6g} and {drafted_block:.6g}\n"
        f"  margin {difference.margin:.3g}, largest difference of the two forwards {difference.spread:.3g}: {verdict}"
    )


def _text(target: Target, token: int | None) -> str:
    return "the end" if token is None else repr(target.tokenizer.decode([token]))


def _summary(checked: Checked) -> str:
    counts = f"{checked.num_prompts} answers, {checked.num_tokens} tokens, {checked.num_accepted} of them drafted"
    if checked.identical:
        return f"identical: {counts}"
    num_ties = len(checked.differences) - len(checked.faults)
    if checked.faults:
        return f"different: {len(checked.faults)} answers part where rounding does not explain it; {counts}"
    return f"not identical: {num_ties} answers part, each at a near-tie; {counts}"
