"""Whole runs on a tiny model: what is learned, what is left alone, what is written down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from draftune.data.task import Task
from draftune.decode.loop import DecodeConfig, Decoder
from draftune.decode.tally import Tally
from draftune.target import lora
from draftune.train import checkpoint, heldout, material
from draftune.train.run import Trained, tune
from tests.train import echo

CONFIG = echo.config(
    drafters=("semiar-gru", "medusa", "lookup"),
    lora=lora.LoraSettings(dropout=0.1),
    lr_adapter=1e-2,
    adapter_epochs=8,
    drafter_epochs=8,
    lr_drafter=3e-3,
    eval_rows=6,
    eval_max_new_tokens=20,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("after")


@pytest.fixture(scope="module")
def after(folder: Path) -> Trained:
    return tune(echo.target(), echo.task(), CONFIG, folder=folder)


def steps(out: Trained, stage: str) -> list[dict]:
    return [one for one in out.history if one["kind"] == "step" and one["stage"] == stage]


def evaluations(out: Trained, stage: str) -> list[dict]:
    return [one for one in out.history if one["kind"] == "evaluation" and one["stage"] == stage]


def test_target_and_drafters_learn(after: Trained) -> None:
    assert after.summary["nll"]["tuned"] < after.summary["nll"]["base"] - 1
    for name in ("semiar-gru", "medusa"):
        losses = [one["loss"] for one in steps(after, f"drafter:{name}")]
        assert losses[-1] < losses[0] - 0.2
    taus = {name: figures["tau"] for name, figures in after.summary["acceptance"].items()}
    assert taus["semiar-gru"] > 1.1
    assert taus["semiar-gru"] > taus["medusa"] >= 1
    assert list(after.drafters) == ["semiar-gru", "medusa", "lookup"]
    assert not steps(after, "drafter:lookup"), "it has nothing to learn"


def test_terms_are_told_apart(after: Trained) -> None:
    first = steps(after, "drafter:semiar-gru")[0]
    weights = [0.8**k for k in range(5)]
    terms = [first[f"ce_{k}"] for k in range(1, 6)]
    expected = sum(weight * term for weight, term in zip(weights, terms, strict=True)) / sum(weights)
    assert first["loss"] == pytest.approx(expected, rel=1e-5)
    adapter = steps(after, "adapter")[0]
    assert adapter["loss"] == adapter["lm"]
    assert 0 < adapter["lr_adapter"] <= CONFIG.lr_adapter


def test_acceptance_is_that_of_real_decoding(after: Trained) -> None:
    """The walk over teacher-forced agreement is, count for count, what the decode loop does."""
    fast = lora.merge(after.target)
    requests = material.prepare(after.target, echo.task(), CONFIG).requests
    for name in ("semiar-gru", "medusa"):
        drafter = after.drafters[name]
        answers = heldout.answer(fast, requests)
        batches = heldout.listen(fast, answers, drafter.taps, whole=False)
        walked = heldout.acceptance(drafter, batches, answers, 5)
        completions = Decoder(fast.runner(), drafter, DecodeConfig(num_drafts=5)).generate(requests)
        assert walked == Tally.of(completions)
        assert walked.num_accepted > 0
        assert after.summary["acceptance"][name]["tau"] == walked.tau
        assert evaluations(after, f"drafter:{name}")[-1]["alpha_1"] == walked.alpha[0]


def test_likelihood_is_that_of_the_whole_model(after: Trained) -> None:
    """Logits at learned positions alone give the loss that the model itself gives over all."""
    found = material.prepare(after.target, echo.task(), CONFIG)
    total = count = 0.0
    for example in found.validation:
        tokens = torch.tensor([example.tokens])
        labels = tokens.masked_fill(~torch.tensor([example.learned]), -100)
        with torch.no_grad():
            loss = after.target.model(input_ids=tokens, labels=labels).loss
        total, count = total + float(loss) * sum(example.learned), count + sum(example.learned)
    assert after.summary["nll"]["tuned"] == pytest.approx(total / count, rel=1e-6)


def test_what_is_written_down(after: Trained, folder: Path) -> None:
    card = json.loads((folder / "run.json").read_text())
    assert card["arguments"]["drafters"] == ["semiar-gru", "medusa", "lookup"]
    assert card["seed"] == 0
    assert card["data"] == after.summary["data"]
    assert {"torch", "transformers", "draftune", "python"} <= set(card["versions"])
    lines = (folder / "train" / "history.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == after.history
    assert after.summary["rows"] == {"adapter": 16, "drafter": 32}
    assert after.summary["stages"]["adapter"]["steps"] == 8 * 4
    assert after.summary["peak_memory_bytes"] > 10**8
    assert after.summary["vocabulary"] == after.vocabulary.size
    stages = sorted(path.name for path in (folder / "train" / "stages").iterdir())
    assert stages == ["adapter", "drafter-medusa", "drafter-semiar-gru"]


def test_a_finished_adapter_is_left_untouched(after: Trained, tmp_path: Path) -> None:
    lora.save(after.target, tmp_path / "adapter")
    before = {path.name: path.read_bytes() for path in (tmp_path / "adapter").iterdir()}
    config = echo.config(adapter=str(tmp_path / "adapter"), drafter_epochs=1)
    out = tune(echo.target(), echo.task(), config, folder=tmp_path / "run")
    assert {path.name: path.read_bytes() for path in (tmp_path / "adapter").iterdir()} == before
    mine, given = lora.adapter_state(out.target), lora.adapter_state(after.target)
    assert all(torch.equal(mine[name], given[name]) for name in given)
    assert out.target.fingerprint() == after.target.fingerprint()
    assert not steps(out, "adapter")
    assert out.summary["nll"] == pytest.approx(after.summary["nll"], rel=1e-6)
    assert steps(out, "drafter:semiar-gru")


def test_a_tuned_model_is_left_untouched(tmp_path: Path) -> None:
    target = echo.target()
    before = {name: weight.clone() for name, weight in target.model.named_parameters()}
    out = tune(target, echo.task(), echo.config(adapter_epochs=0, drafter_epochs=1), folder=tmp_path)
    after = dict(out.target.model.named_parameters())
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert set(out.summary["nll"]) == {"tuned"}, "what it was tuned from is not known"


def adapter_after_one_step(folder: Path, **settings: object) -> dict[str, torch.Tensor]:
    plain = lora.LoraSettings(modules="q_proj,v_proj")
    config = echo.config(adapter_rows=8, batch_size=8, adapter_epochs=1, lora=plain, warmup=0.0, **settings)
    return lora.adapter_state(tune(echo.target(), echo.task(8), config, folder=folder).target)


def distance(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> float:
    return max(float((left[name] - right[name]).abs().max()) for name in left)


def test_the_draft_gradient_reaches_the_adapter_unless_switched_off(tmp_path: Path) -> None:
    """With Adam a smaller loss is the same first step: detached, the joint adapter moves as the plain one does."""
    plain = adapter_after_one_step(tmp_path / "plain", drafters=())
    joint = {"mode": "joint", "draft_weight": 0.5, "joint_warmup": 0.0, "guard": None}
    detached = adapter_after_one_step(tmp_path / "detached", draft_gradient=0.0, **joint)
    attached = adapter_after_one_step(tmp_path / "attached", **joint)
    assert distance(detached, plain) < 1e-5
    assert distance(attached, plain) > 5e-4


def test_joint(tmp_path: Path) -> None:
    config = echo.config(mode="joint", drafter_after_joint=True, guard=None)
    out = tune(echo.target(), echo.task(), config, folder=tmp_path)
    assert {one["stage"] for one in out.history} == {"joint", "drafter:semiar-gru"}
    for one in steps(out, "joint"):
        assert one["loss"] == pytest.approx(0.8 * one["lm"] + 0.2 * one["draft"], rel=1e-6)
    assert steps(out, "joint")[-1]["lm"] < steps(out, "joint")[0]["lm"]
    assert steps(out, "joint")[-1]["draft"] < steps(out, "joint")[0]["draft"]
    assert {"nll", "tau", "alpha_1"} <= set(evaluations(out, "joint")[-1])
    end, _ = checkpoint.read(tmp_path / "train" / "stages" / "joint" / "final")
    adapter = lora.adapter_state(out.target)
    assert all(torch.equal(end.weights[f"adapter.{name}"], adapter[name]) for name in adapter), "frozen after joint"
    start = steps(out, "drafter:semiar-gru")[0]["loss"]
    assert start < steps(out, "joint")[0]["draft"], "the drafter goes on from what it learned jointly"


def test_a_time_budget_ends_the_schedule(tmp_path: Path) -> None:
    config = echo.config(adapter_epochs=0, drafter_epochs=300, drafter_minutes=0.02)
    out = tune(echo.target(), echo.task(), config, folder=tmp_path)
    taken = steps(out, "drafter:semiar-gru")
    assert len(taken) < 300 * 4, "the clock ended it"
    assert taken[-1]["progress"] == 1
    assert taken[-1]["lr_drafter"] == pytest.approx(config.final_lr * config.lr_drafter)
    assert [one["progress"] for one in taken] == sorted(one["progress"] for one in taken)
    assert len(evaluations(out, "drafter:semiar-gru")) >= 1


def test_the_callers_random_numbers_stay(tmp_path: Path) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    tune(echo.target(), echo.task(), echo.config(adapter_epochs=1, drafter_epochs=1), folder=tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def test_without_held_out_rows(tmp_path: Path) -> None:
    task = echo.task()
    bare = Task(name="bare", train=task.train, validation=[], test=[], metric=task.metric)
    out = tune(echo.target(), bare, echo.config(adapter_epochs=1, drafter_epochs=1), folder=tmp_path)
    assert out.summary["nll"] == {}
    assert out.summary["acceptance"] == {}
    assert steps(out, "drafter:semiar-gru")


def test_golden_curve(after: Trained) -> None:
    """The loss of every step of a fixed run, one a line; a change that moves them is no refactor."""
    golden = [float(line) for line in (Path(__file__).parent / "golden_after.txt").read_text().split()]
    losses = [one["loss"] for one in after.history if one["kind"] == "step"]
    assert losses == pytest.approx(golden, rel=1e-3)
