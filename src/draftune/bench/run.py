"""The benchmark: the same held-out prompts, plainly and drafted, side by side in one run."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from draftune import errors
from draftune.bench import machine, measure
from draftune.bench.config import BenchConfig
from draftune.bench.measure import Contender, Judge, Speaker
from draftune.bench.record import PLAIN, Answer, Interval, Report
from draftune.data import template
from draftune.data.task import Task
from draftune.decode.calibrate import adaptive
from draftune.decode.loop import DecodeConfig, Decoder
from draftune.decode.plain import PlainDecoder
from draftune.decode.plan import Plan
from draftune.decode.stops import Detokenize
from draftune.decode.stream import TextStream
from draftune.drafters.base import Drafter
from draftune.target import lora
from draftune.target.base import Runner
from draftune.target.target import Target
from draftune.types import Completion, Request

if TYPE_CHECKING:
    from rich.console import Console

    from draftune.target.image import Image

Batch = list[Request]
SCORE_NAMES = {"after": "tuned", "joint": "joint"}  # what the target's own score is called, by how it was trained
WARM_TOKENS = 16  # enough for every shape that a round meets
CALIBRATION_LENGTH = 192  # tokens of context at which costs are measured
SCORED_TOGETHER = 8  # prompts of a model that is scored and not timed


def bench(
    target: Target,
    drafters: Mapping[str, Drafter],
    task: Task,
    config: BenchConfig | None = None,
    *,
    name: str = "tuned",
    console: Console | None = None,
    extra_targets: Mapping[str, Target | Interval] | None = None,
) -> Report:
    """What plain decoding and each drafter did with the first held-out prompts.

    The decoders take turns on every prompt, in one order and then in the other, so that a slow moment of the machine
    hits all alike. `extra_targets` adds scores beside that of this target, which is called `name` ("joint" where its
    drafter was tuned with it): models still to be measured, or scores known already. "base", the target with its
    adapter switched off, is measured where it has one. The timed decoders work on a copy with the adapter folded in,
    unless `merge` is off; the target stays as it was.
    """
    config, start = config or BenchConfig(), time.perf_counter()
    _check_names(drafters)
    extra = dict(extra_targets or {})
    if config.base and "base" not in extra and lora.has_adapter(target):
        extra["base"] = target
    timed = lora.merge(target) if config.merge else target
    requests, contenders = make_requests(target, task, config), make_contenders(timed, drafters, config)
    to_measure = len(contenders) + sum(isinstance(one, Target) for one in extra.values())
    with _progress(console, len(requests) * to_measure) as advance:
        run(contenders, requests, config, advance)
        scores = {name: measure.score(contenders[0].completions, _judge(task), config)}
        for other, one in extra.items():
            known = isinstance(one, Interval)
            scores[other] = one if known else _score(one, task, config, advance, base=other == "base")
    return _report(target, task, config, contenders, scores, start)


def _report(
    target: Target,
    task: Task,
    config: BenchConfig,
    contenders: Sequence[Contender],
    scores: Mapping[str, Interval],
    start: float,
) -> Report:
    judge, (plain, *drafted) = _judge(task), contenders
    return Report(
        task=task.name,
        metric=task.metric.name,
        target=target.name,
        fingerprint=target.fingerprint(),
        dtype=str(target.dtype).removeprefix("torch."),
        device=str(target.device),
        runner=contenders[0].speaker.runner.kind,
        settings=config,
        num_prompts=len(plain.completions),
        plain=measure.summarise(plain, judge, config),
        drafted={one.name: measure.summarise(one, judge, config, plain) for one in drafted},
        scores=scores,
        machine=machine.describe(str(target.device)),
        process_peak_bytes=machine.process_peak_bytes(),
        seconds=time.perf_counter() - start,
        date=machine.now(),
        command=machine.command_line(),
        git=machine.git_id(),
        notes=tuple(task.notes),
        answers=_answers(drafted, task, config, detokenizer(target)),
    )


def score(target: Target, task: Task, config: BenchConfig | None = None, *, base: bool = False) -> Interval:
    """The task's score of a target's plain answers to the held-out prompts; with `base`, its adapter switched off."""
    return _score(target, task, config or BenchConfig(), lambda: None, base=base)


def _score(target: Target, task: Task, config: BenchConfig, advance: Callable[[], None], *, base: bool) -> Interval:
    requests = make_requests(target, task, config)
    with lora.without(target) if base else nullcontext():
        (plain,) = make_contenders(target, {}, config)
        untimed = dataclasses.replace(config, num_warmup=0, batch_size=max(config.batch_size, SCORED_TOGETHER))
        run([plain], requests, untimed, advance)
    return measure.score(plain.completions, _judge(task), config)


def make_requests(target: Target, task: Task, config: BenchConfig) -> list[Request]:
    """The held-out prompts, each with a limit of length that the model's context has room for.

    Raises DataError where there is no prompt, or one that leaves no room for an answer.
    """
    rows = task.test[: config.num_prompts]
    if not rows:
        todo = "hold some rows out for test"
        raise errors.DataError(doing=f"benchmarking {task.name}", met="no held-out rows", todo=todo)
    stops = template.end_tokens(target.tokenizer)
    seed = config.seed if config.temperature > 0 else None
    requests = []
    for row in rows:
        prompt = tuple(template.encode_prompt(row.prompt, target.tokenizer))
        left = target.shape.max_length - len(prompt) - config.num_drafts - 1  # a last round may reach beyond the limit
        if left < 1:
            met = f"the prompt of row {row.id} has {len(prompt)} tokens of a context of {target.shape.max_length}"
            raise errors.DataError(doing=f"benchmarking {task.name}", met=met, todo="shorten or drop the row")
        request = Request(id=row.id, prompt=prompt, temperature=config.temperature, seed=seed, stop_tokens=stops)
        requests.append(dataclasses.replace(request, max_new_tokens=min(config.max_new_tokens, left)))
    return requests


def detokenizer(target: Target | Image) -> Detokenize:
    """From token ids to text, special tokens left out."""
    return lambda tokens: target.tokenizer.decode(
        list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
    )


def make_contenders(target: Target, drafters: Mapping[str, Drafter], config: BenchConfig) -> list[Contender]:
    """Plain decoding and one decoder for each drafter, on one runner."""
    runner, detokenize = target.runner(config.runner), detokenizer(target)
    settings = DecodeConfig(num_drafts=config.num_drafts, rule=config.rule)
    speakers: dict[str, Speaker] = {PLAIN: PlainDecoder(runner, detokenize)}
    for name, drafter in drafters.items():
        plan = _plan(runner, drafter, config) if config.adaptive else None
        speakers[name] = Decoder(runner, drafter, settings, detokenize, plan=plan)
    return [Contender(name, speaker, target.device) for name, speaker in speakers.items()]


def _plan(runner: Runner, drafter: Drafter, config: BenchConfig) -> Plan:
    return adaptive(runner, drafter, num_rows=config.batch_size, length=CALIBRATION_LENGTH, most=config.num_drafts)


def run(contenders: Sequence[Contender], requests: Batch, config: BenchConfig, advance: Callable[[], None]) -> None:
    """Let all decoders answer all prompts in turn, after a warm-up; the order turns round with every batch."""
    batches = _batches(requests, config.batch_size)
    for batch in batches[: config.num_warmup]:
        short = [dataclasses.replace(one, max_new_tokens=min(WARM_TOKENS, one.max_new_tokens)) for one in batch]
        for contender in contenders:
            contender.speaker.generate(short)
    for number, batch in enumerate(batches):
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            contender.answer(batch)
            for _ in batch:
                advance()


def _batches(requests: Batch, size: int) -> list[Batch]:
    return [requests[start : start + size] for start in range(0, len(requests), size)]


def _judge(task: Task) -> Judge:
    rows = {row.id: row for row in task.test}
    return lambda completion: task.metric(rows[completion.id], completion.text)


def _check_names(drafters: Mapping[str, Drafter]) -> None:
    if PLAIN in drafters:
        met, todo = f"a drafter named {PLAIN!r}", "name it otherwise: plain decoding is measured in any case"
        raise errors.ConfigError(doing="setting up the benchmark", met=met, todo=todo)


def _answers(
    drafted: Sequence[Contender], task: Task, config: BenchConfig, detokenize: Detokenize
) -> tuple[Answer, ...]:
    """The first answers of the drafter that accepts most, to be shown token by token."""
    if not drafted:
        return ()
    best = max(drafted, key=lambda one: measure.acceptance(one.completions, config.num_drafts).tau or 0.0)
    questions = {row.id: row.prompt[-1].content if row.prompt else "" for row in task.test}
    return tuple(
        measure.answer(one, best.name, questions[one.id], pieces(one, detokenize))
        for one in best.completions[: config.num_answers]
    )


def pieces(completion: Completion, detokenize: Detokenize) -> list[tuple[str, int]]:
    """The text that each token added, with the draft offset it came from.

    A token that ends inside a character adds its part when the character is whole.
    """
    stream = TextStream(detokenize)
    found = [(stream.push([token.token]), token.offset) for token in completion.trail]
    return [*found, (stream.finish(), 0)]


@contextmanager
def _progress(console: Console | None, total: int) -> Iterator[Callable[[], None]]:
    """A way to count one more answer; shown where there is a console."""
    if console is None:
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as shown:
        bar = shown.add_task("benchmark", total=total)
        yield lambda: shown.advance(bar)
