"""The target's own answers: what it would say, kept on disk, made once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from draftune.data import template
from draftune.decode.plain import PlainDecoder
from draftune.target import lora
from draftune.train import answers
from draftune.train.run import Trained, tune
from draftune.types import Request
from tests.train import echo

CONFIG = echo.config(own_answers=10, answer_batch_size=4, answer_max_new_tokens=12)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the rows that were answered, as they were."""
    ids: list[str] = []
    generate = PlainDecoder.generate

    def watched(self, requests):
        ids.extend(request.id for request in requests if request.id.startswith("train"))
        return generate(self, requests)

    monkeypatch.setattr(PlainDecoder, "generate", watched)
    return ids


def run(folder: Path, **settings) -> Trained:
    resume = (folder / "train" / "stages").exists()
    return tune(echo.target(), echo.task(), echo.config(**{**vars(CONFIG), **settings}), folder=folder, resume=resume)


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "train" / answers.FILE).read_text().splitlines()]


def test_the_first_rows_get_the_answers_of_the_tuned_target(tmp_path: Path, asked: list[str]) -> None:
    out = run(tmp_path)
    kept = lines(tmp_path)
    assert sorted(asked) == sorted(one["id"] for one in kept)
    assert len(set(asked)) == 10
    assert out.summary["answers"]["rows"] == 10
    assert out.summary["answers"]["seconds"] > 0
    frozen = lora.merge(out.target)
    rows = {row.id: row for row in echo.task().train}
    for one in kept[:3]:
        prompt = tuple(template.encode_prompt(rows[one["id"]].prompt, frozen.tokenizer))
        stops = template.end_tokens(frozen.tokenizer)
        request = Request(id="0", prompt=prompt, max_new_tokens=12, stop_tokens=stops)
        assert tuple(one["tokens"]) == PlainDecoder(frozen.runner()).generate([request])[0].tokens


def test_without_them_nothing_is_asked(tmp_path: Path, asked: list[str]) -> None:
    out = run(tmp_path, own_answers=0)
    assert not asked
    assert out.summary["answers"] is None


def test_a_resumed_run_asks_only_for_what_it_lacks(tmp_path: Path, asked: list[str]) -> None:
    whole = run(tmp_path)
    path = tmp_path / "train" / answers.FILE
    text = path.read_text().splitlines(keepends=True)
    path.write_text("".join(text[:6]) + text[6][:9])  # as a kill in the middle of a line leaves it
    asked.clear()
    for stage in (tmp_path / "train" / "stages").iterdir():
        if stage.name.startswith("drafter"):
            shutil.rmtree(stage)
    again = run(tmp_path)
    assert len(asked) == 4
    assert [one["tokens"] for one in lines(tmp_path)[:6]] == [json.loads(line)["tokens"] for line in text[:6]]
    mine, theirs = (out.drafters["semiar-gru"].state_dict() for out in (whole, again))
    assert all((mine[name] - theirs[name]).abs().max() < 1e-6 for name in mine)


@pytest.mark.parametrize("objective", ["text", "distribution", "likeliest"])
def test_every_objective_learns(tmp_path: Path, objective: str) -> None:
    out = run(tmp_path, objective=objective, own_answers=None, drafter_epochs=12)
    losses = [one["loss"] for one in out.history if one["kind"] == "step" and one["stage"] == "drafter:semiar-gru"]
    assert losses[-1] < losses[0] - 0.1


def test_drafters_learn_from_prompts_too(tmp_path: Path) -> None:
    runs = {
        wanted: run(tmp_path / str(wanted), own_answers=0, draft_prompts=wanted, drafter_epochs=1)
        for wanted in (False, True)
    }
    tokens = {wanted: out.summary["stages"]["drafter:semiar-gru"]["tokens"] for wanted, out in runs.items()}
    assert tokens[True] > 1.5 * tokens[False]
    assert runs[True].vocabulary.size == runs[False].vocabulary.size, "it stays that of the answers"
