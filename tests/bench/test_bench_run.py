"""The benchmark on a tiny model: what is measured is what happened."""

import dataclasses
import time

import pytest
import torch

from draftune import errors
from draftune.bench import measure, run
from draftune.bench.config import BenchConfig
from draftune.bench.record import Difference, Interval, Report
from draftune.data.metric import METRICS
from draftune.data.task import Task
from draftune.drafters.base import Drafter
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.target import lora, tiny
from draftune.target.target import Target
from draftune.types import Completion, Message, Request, Row

SETTINGS = BenchConfig(num_prompts=4, num_drafts=3, max_new_tokens=12, num_resamples=100)


class SameText:
    """1 where the text is the row's answer, letter by letter."""

    name = "same-text"

    def __call__(self, row: Row, text: str) -> float:
        return float(row.answer == text)


def make_task(answers: list[str], metric=None) -> Task:
    rows = [
        Row(
            id=f"toy/{n}",
            messages=(Message(role="user", content=f"say {n} {n}"), Message(role="assistant", content=answer)),
        )
        for n, answer in enumerate(answers)
    ]
    return Task(name="toy", train=[], validation=[], test=rows, metric=metric or METRICS["rouge-l"])


def make_drafter(name: str, target: Target) -> Drafter:
    torch.manual_seed(1)
    vocabulary = Vocabulary.full(target.shape.vocab_size)
    return DRAFTERS.load(name)().build(target.parts(), vocabulary).double().eval()


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny.tiny("llama")


@pytest.fixture(scope="module")
def drafters(target) -> dict[str, Drafter]:
    return {name: make_drafter(name, target) for name in ("semiar-lstm", "lookup")}


@pytest.fixture(scope="module")
def report(target, drafters) -> Report:
    return run.bench(target, drafters, make_task(["a b"] * 6), SETTINGS)


def test_every_decoder_answered_the_same_first_prompts(report):
    decoders = [report.plain, *report.drafted.values()]
    assert [one.name for one in decoders] == ["plain", "semiar-lstm", "lookup"]
    assert report.num_prompts == 4
    for one in decoders:
        assert [lap.ids for lap in one.laps] == [(f"toy/{n}",) for n in range(4)]
        assert one.num_tokens == report.plain.num_tokens
        assert one.num_decoded == one.num_tokens - 4


def test_lossless_drafters_are_found_identical(report):
    for one in report.drafted.values():
        assert one.identity is not None
        assert (one.identity.num_identical, one.identity.num_prompts) == (4, 4)
    assert report.plain.identity is None
    assert report.plain.acceptance is None


def test_counts_agree_with_one_another(report):
    for one in report.drafted.values():
        found = one.acceptance
        assert found is not None
        assert found.num_emitted == one.num_decoded
        assert sum(found.histogram) == found.num_rounds == sum(lap.num_rounds for lap in one.laps)
        assert len(found.alpha) == 3
        assert sum(count * num for count, num in enumerate(found.histogram)) == found.num_accepted


def test_times_are_those_of_a_clock_on_the_wall(target, drafters):
    start = time.perf_counter()
    found = run.bench(target, drafters, make_task(["a"] * 4), dataclasses.replace(SETTINGS, num_warmup=0))
    elapsed = time.perf_counter() - start
    spent = sum(one.seconds.total for one in (found.plain, *found.drafted.values()))
    assert 0.2 * elapsed < spent < elapsed
    assert found.plain.seconds.draft == 0
    assert all(one.seconds.verify > 0 and one.seconds.prefill > 0 for one in found.drafted.values())


def test_a_slow_drafter_is_booked_under_draft_and_is_slower(target):
    lookup = DRAFTERS.load("lookup")().build(target.parts(), Vocabulary.full(64))
    propose = lookup.propose

    def slow(*arguments):
        time.sleep(0.01)
        return propose(*arguments)

    lookup.propose = slow
    found = run.bench(target, {"slow": lookup}, make_task(["a"] * 4), SETTINGS)
    slow_one = found.drafted["slow"]
    assert slow_one.acceptance is not None
    assert slow_one.seconds.draft > 0.01 * slow_one.acceptance.num_rounds
    assert slow_one.speedup_decode is not None
    assert slow_one.speedup_decode.high < 1


class Noted:
    """A decoder that notes its turn, and may spoil one token of one answer."""

    def __init__(self, inner: measure.Speaker, name: str, turns: list[str], spoil: str = "") -> None:
        self.inner, self.name, self.turns, self.spoil, self.clock = inner, name, turns, spoil, inner.clock

    def generate(self, requests: list[Request]) -> list[Completion]:
        self.turns.append(f"{self.name}:{requests[0].id}:{requests[0].max_new_tokens}")
        return [self._spoilt(one) if one.id == self.spoil else one for one in self.inner.generate(requests)]

    def _spoilt(self, one: Completion) -> Completion:
        return dataclasses.replace(one, tokens=(*one.tokens[:6], one.tokens[6] + 1, *one.tokens[7:]))


def test_turns_alternate_after_a_warm_up(target, drafters):
    turns: list[str] = []
    settings = dataclasses.replace(SETTINGS, max_new_tokens=20)
    contenders = run.make_contenders(target, drafters, settings)
    for one in contenders:
        one.speaker = Noted(one.speaker, one.name, turns)
    run.run(contenders, run.make_requests(target, make_task(["a"] * 3), settings), settings, lambda: None)
    order = ["plain", "semiar-lstm", "lookup"]
    assert turns[:3] == [f"{name}:toy/0:16" for name in order]
    assert turns[3:6] == [f"{name}:toy/0:20" for name in order]
    assert turns[6:9] == [f"{name}:toy/1:20" for name in reversed(order)]
    assert turns[9:] == [f"{name}:toy/2:20" for name in order]
    assert [len(one.laps) for one in contenders] == [3, 3, 3]


def test_a_decoder_that_loses_a_token_is_found_out(target, drafters):
    contenders = run.make_contenders(target, drafters, SETTINGS)
    contenders[2].speaker = Noted(contenders[2].speaker, "lookup", [], spoil="toy/3")
    task = make_task(["a"] * 4)
    run.run(contenders, run.make_requests(target, task, SETTINGS), SETTINGS, lambda: None)
    honest, lossy = (measure.summarise(one, lambda _: 0.0, SETTINGS, contenders[0]) for one in contenders[1:])
    assert honest.identity is not None
    assert honest.identity.differences == ()
    assert lossy.identity is not None
    assert lossy.identity.differences == (Difference(id="toy/3", index=6),)
    assert lossy.identity.num_identical == 3


def test_batches_give_the_same_text_and_one_lap_each(target, drafters, report):
    found = run.bench(
        target, drafters, make_task(["a b"] * 6), dataclasses.replace(SETTINGS, batch_size=2, num_prompts=3)
    )
    assert [lap.ids for lap in found.plain.laps] == [("toy/0", "toy/1"), ("toy/2",)]
    assert found.plain.num_tokens == sum(lap.num_tokens for lap in report.plain.laps[:3])
    assert found.plain.num_decoded == found.plain.num_tokens - 3
    for one in found.drafted.values():
        assert one.identity is not None
        assert one.identity.num_identical == 3


def test_seeded_samples_are_compared_and_unseeded_ones_are_not(target, drafters):
    warm = dataclasses.replace(SETTINGS, temperature=1.0, seed=7, num_prompts=2)
    found = run.bench(target, drafters, make_task(["a"] * 2), warm).drafted["semiar-lstm"]
    assert found.identity is not None
    assert found.identity.num_identical == 2
    chance = dataclasses.replace(warm, seed=None)
    assert run.bench(target, drafters, make_task(["a"] * 2), chance).drafted["semiar-lstm"].identity is None


@pytest.fixture(scope="module")
def tuned() -> Target:
    made = lora.add(tiny.tiny("llama"))
    torch.manual_seed(5)
    with torch.no_grad():
        for name, weight in made.model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.5)
    return made


def texts(target: Target, rows: int) -> list[str]:
    (plain,) = run.make_contenders(target, {}, SETTINGS)
    run.run([plain], run.make_requests(target, make_task(["a"] * rows), SETTINGS), SETTINGS, lambda: None)
    return [completion.text for completion in plain.completions]


def test_base_and_tuned_are_scored_apart_and_the_adapter_stays_on(tuned):
    said_by_base, said_by_tuned = texts(tiny.tiny("llama"), 4), texts(tuned, 4)
    assert not set(said_by_base) & set(said_by_tuned)
    task = make_task([*said_by_base[:3], said_by_tuned[3]], SameText())
    known = Interval(value=0.5, low=0.4, high=0.6, count=9)
    found = run.bench(tuned, {}, task, SETTINGS, extra_targets={"joint": known, "other": tiny.tiny("llama")})
    assert {name: one.value for name, one in found.scores.items()} == {
        "tuned": 0.25, "base": 0.75, "joint": 0.5, "other": 0.75,
    }  # fmt: skip
    assert found.fingerprint == tuned.fingerprint()
    assert texts(tuned, 4) == said_by_tuned
    assert run.score(tuned, task, SETTINGS).value == 0.25
    assert run.score(tuned, task, SETTINGS, base=True).value == 0.75


def test_the_adapter_is_folded_in_or_not_with_the_same_text(tuned):
    drafter, task = {"lookup": make_drafter("lookup", tuned)}, make_task(["a"] * 3)
    calls: list[int] = []
    module = next(module for name, module in tuned.model.named_modules() if name.endswith("lora_A.default"))
    hook = module.register_forward_hook(lambda *_: calls.append(1))
    folded = run.bench(tuned, drafter, task, dataclasses.replace(SETTINGS, base=False))
    assert calls == []
    loose = run.bench(tuned, drafter, task, dataclasses.replace(SETTINGS, base=False, merge=False))
    hook.remove()
    assert len(calls) > loose.plain.num_tokens
    assert "base" not in folded.scores
    assert lora.has_adapter(tuned)
    assert folded.plain.num_tokens == loose.plain.num_tokens
    assert folded.drafted["lookup"].acceptance == loose.drafted["lookup"].acceptance


def test_answers_show_where_each_piece_came_from(target, drafters, report):
    assert len(report.answers) == 3
    best = max(report.drafted.values(), key=lambda one: (one.acceptance and one.acceptance.tau) or 0)
    said = texts(target, 3)
    for shown, text in zip(report.answers, said, strict=True):
        assert shown.drafter == best.name
        assert "".join(piece.text for piece in shown.pieces) == text
        assert shown.question.startswith("say ")
    offsets = [piece.offset for shown in report.answers for piece in shown.pieces]
    assert 0 in offsets
    assert max(offsets) > 0


def test_a_character_of_several_tokens_is_shown_once():
    target = tiny.tiny("llama", vocab_size=300)
    detokenize = run.detokenizer(target)
    ids = target.tokenizer("aé😀!", add_special_tokens=False)["input_ids"]
    assert len(ids) == 8
    tokens = [run_token(n, token, offset=n % 3) for n, token in enumerate(ids)]
    done = Completion(id="x", tokens=tuple(ids), text="", finish_reason="length", trail=tuple(tokens))
    assert [piece for piece in run.pieces(done, detokenize) if piece[0]] == [("a", 0), ("é", 2), ("😀", 0), ("!", 1)]


def run_token(index: int, token: int, offset: int):
    from draftune.types import Token

    return Token(id="x", index=index, token=token, round=1, offset=offset)


def test_an_answer_has_no_more_room_than_the_context():
    small = tiny.tiny("llama", max_position_embeddings=60)
    drafter = {"lookup": make_drafter("lookup", small)}
    found = run.bench(small, drafter, make_task(["a"]), dataclasses.replace(SETTINGS, max_new_tokens=256))
    assert 1 < found.plain.laps[0].num_tokens < 60 - found.plain.laps[0].num_prompt_tokens
    tight = tiny.tiny("llama", max_position_embeddings=20)
    with pytest.raises(errors.DataError, match=r"the prompt of row toy/0 has .* tokens of a context of 20"):
        run.bench(tight, drafter, make_task(["a"]), SETTINGS)


def test_requests_are_the_prompts_without_their_answers_and_end_with_the_turn(target):
    request = run.make_requests(target, make_task(["a"] * 6), SETTINGS)[2]
    prompt = target.tokenizer.decode(request.prompt)
    assert prompt == "<|im_start|>user\nsay 2 2<|im_end|>\n<|im_start|>assistant\n"
    assert request.stop_tokens == {target.tokenizer.eos_token_id}
    assert (request.id, request.max_new_tokens, request.seed) == ("toy/2", 12, None)


def test_what_cannot_be_measured_is_refused(target, drafters):
    with pytest.raises(errors.DataError, match="no held-out rows"):
        run.bench(target, drafters, make_task([]), SETTINGS)
    with pytest.raises(errors.ConfigError, match="a drafter named 'plain'"):
        run.bench(target, {"plain": drafters["lookup"]}, make_task(["a"]), SETTINGS)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"num_drafts": 0}, "num_drafts = 0; give at least 1"),
        ({"num_prompts": 0}, "num_prompts = 0"),
        ({"temperature": -1}, "temperature = -1; give at least 0"),
        ({"rule": "rejection", "temperature": 1.0}, "a seeded text is made by 'match'"),
    ],
)
def test_impossible_settings_are_refused(settings, sentence):
    with pytest.raises(errors.ConfigError) as caught:
        BenchConfig(**settings)
    assert sentence in str(caught.value)


def test_the_report_of_a_run_survives_json(report):
    assert Report.from_json(report.to_json(include_text=True)) == report
