"""The main road: what was tuned is generated from, checked and measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftune.decode.stops import cut
from tests.cli.conftest import draftune, tune, write_rows

PROMPT = "table pets (id, name); what is the name?"
SHORT = ("--max-new-tokens", 12, "--dtype", "float32")


def test_the_bundle_says_what_belongs_together(home: Path, bundle: Path) -> None:
    card = json.loads((bundle / "bundle.json").read_text())
    assert card["drafters"] == ["semiar-lstm", "medusa"]
    assert card["drafter"] == "semiar-lstm"
    assert card["base"] == str(home / "model")
    assert card["task"] == str(home / "rows.jsonl")
    assert card["adapter"] is True
    assert card["tuned_fingerprint"] != card["base_fingerprint"]
    run = json.loads((bundle / "run.json").read_text())
    assert run["arguments"]["adapter_epochs"] == 1
    assert run["summary"]["rows"] == {"adapter": 51, "drafter": 51}
    assert set(run["summary"]["acceptance"]) == {"semiar-lstm", "medusa"}
    assert (bundle / "adapter" / "adapter_model.safetensors").is_file()
    assert (bundle / "drafter" / "model.safetensors").is_file()
    assert (bundle / "drafters" / "medusa" / "model.safetensors").is_file()


def test_every_drafter_and_none_say_the_same(bundle: Path) -> None:
    said = [
        draftune("generate", bundle, PROMPT, *SHORT, "--drafter", name) for name in ("semiar-lstm", "medusa", "none")
    ]
    assert [one.code for one in said] == [0, 0, 0]
    assert said[0].out.strip()
    assert said[0].out == said[1].out == said[2].out
    assert {one.err for one in said} == {""}


@pytest.mark.parametrize("drafter", ["semiar-lstm", "none"])
def test_a_seed_decides_the_text(bundle: Path, drafter: str) -> None:
    sampled = [*SHORT, "--temperature", 2, "--seed"]
    one = draftune("generate", bundle, PROMPT, *sampled, 3).out
    assert draftune("generate", bundle, PROMPT, *sampled, 3, "--drafter", drafter, "-k", 2).out == one
    assert draftune("generate", bundle, PROMPT, *sampled, 4, "--drafter", drafter).out != one


def test_a_prompt_comes_from_argument_file_or_stdin(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text(PROMPT)
    by_argument = draftune("generate", bundle, PROMPT, *SHORT)
    by_file = draftune("generate", bundle, "--file", tmp_path / "prompt.txt", *SHORT)
    by_stdin = draftune("generate", bundle, *SHORT, input=PROMPT)
    assert by_argument.out == by_file.out == by_stdin.out != draftune("generate", bundle, "hello", *SHORT).out


def test_a_stop_string_ends_the_answer(bundle: Path) -> None:
    whole = draftune("generate", bundle, PROMPT, *SHORT).out.removesuffix("\n")
    stop = whole[3:5]
    for drafter in ("semiar-lstm", "none"):
        said = draftune("generate", bundle, PROMPT, *SHORT, "--stop", stop, "--drafter", drafter)
        assert said.out == cut(whole, [stop]) + "\n"


def test_trace_and_stats_stay_off_stdout(bundle: Path) -> None:
    plain = draftune("generate", bundle, PROMPT, *SHORT)
    said = draftune("generate", bundle, PROMPT, *SHORT, "--trace", "--stats")
    assert said.out == plain.out
    lines = said.err.splitlines()
    assert lines[0].split()[:4] == ["0", "round", "0", "target"]
    assert lines[-2].startswith("drafter semiar-lstm: 12 tokens in ")
    assert lines[-1].endswith(" tokens a round")
    assert len(lines) == 14


def test_chat_remembers(bundle: Path) -> None:
    said = draftune("chat", bundle, *SHORT, input=f"{PROMPT}\n\nand its id?\n/new\n{PROMPT}\n/exit\nnever read\n")
    first, second, third, rest = said.out.split("\n")
    assert first + "\n" == draftune("generate", bundle, PROMPT, *SHORT).out
    assert third == first, "/new forgets what was said"
    assert second + "\n" != draftune("generate", bundle, "and its id?", *SHORT).out
    assert rest == ""
    assert said.code == 0


def test_check_says_identical(bundle: Path) -> None:
    said = draftune("check", bundle, "--prompts", 3, *SHORT, "--drafter", "medusa")
    assert said.code == 0
    assert said.out.startswith("medusa: identical: 3 answers, ")


def test_bench_measures_what_it_should(bundle: Path, tmp_path: Path) -> None:
    said = draftune("bench", bundle, "--prompts", 2, "--out", tmp_path / "report", *SHORT)
    assert said.code == 0
    figures = json.loads(said.out.splitlines()[-1])
    assert figures["dtype"] == "float32"
    assert figures["num_identical"] == figures["num_prompts"] == 2
    assert {"score_base", "score_tuned"} < set(figures)
    assert said.out.splitlines()[-2] == f"report: {tmp_path / 'report' / 'report.html'}"
    metrics = json.loads((tmp_path / "report" / "metrics.json").read_text())
    assert set(metrics["drafted"]) == {"semiar-lstm", "medusa"}
    page = (tmp_path / "report" / "report.html").read_text()
    assert "what is the" not in page, "no row's text unless asked for"


def test_bench_of_one_drafter_with_text(bundle: Path, tmp_path: Path) -> None:
    said = draftune(
        "bench", bundle, "--prompts", 1, "--drafter", "medusa", "--no-score-base", "--text", "--out", tmp_path, *SHORT
    )
    assert said.code == 0
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert set(metrics["drafted"]) == {"medusa"}
    assert set(metrics["scores"]) == {"tuned"}
    assert "what is the" in (tmp_path / "report.html").read_text()


def test_rows_that_changed_are_noticed(home: Path, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl")
    assert tune(home / "model", rows, tmp_path / "bundle", "--rows", 8, "--drafter-rows", 8).code == 0
    quiet = draftune("check", tmp_path / "bundle", "--prompts", 1, *SHORT)
    write_rows(rows, seed=1)
    loud = draftune("check", tmp_path / "bundle", "--prompts", 1, *SHORT)
    assert quiet.err == ""
    assert loud.err == (
        f"note: the rows of {rows} have changed since the bundle was made: some may have been learned\n"
    )


def test_an_adapter_of_ones_own_is_left_untouched(home: Path, bundle: Path, tmp_path: Path) -> None:
    """By --adapter, or by naming its folder as the model: the drafter is trained for it, the adapter copied."""
    adapter = bundle / "adapter"
    before = {path.name: path.read_bytes() for path in adapter.iterdir()}
    few = ("--drafter-rows", 8, "--drafter", "medusa")
    assert tune(home / "model", home / "rows.jsonl", tmp_path / "a", "--adapter", adapter, *few).code == 0
    assert tune(adapter, home / "rows.jsonl", tmp_path / "b", *few).code == 0
    assert {path.name: path.read_bytes() for path in adapter.iterdir()} == before
    cards = [json.loads((folder / "bundle.json").read_text()) for folder in (bundle, tmp_path / "a", tmp_path / "b")]
    assert len({card["tuned_fingerprint"] for card in cards}) == 1
    assert len({card["base_fingerprint"] for card in cards}) == 1
    said = [draftune("generate", folder, PROMPT, *SHORT).out for folder in (bundle, tmp_path / "a", tmp_path / "b")]
    assert said[0] == said[1] == said[2]


def test_a_model_that_is_tuned_already(home: Path, tmp_path: Path) -> None:
    """With --epochs 0 the bundle holds no adapter."""
    said = draftune(
        "tune", home / "model", home / "rows.jsonl", "--out", tmp_path / "bundle", "--epochs", 0, "--drafter-epochs", 1,
        "--drafter-rows", 8, "--dtype", "float32", "--set", "eval_rows=2", "--set", "nll_rows=2",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert not (tmp_path / "bundle" / "adapter").exists()
    assert draftune("check", tmp_path / "bundle", "--prompts", 1, *SHORT).out.startswith("semiar-lstm: identical: 1 ")


def test_joint(home: Path, tmp_path: Path) -> None:
    said = tune(home / "model", home / "rows.jsonl", tmp_path / "bundle", "--mode", "joint", "--rows", "8")
    assert said.code == 0, said.err
    assert draftune("check", tmp_path / "bundle", "--prompts", 1, *SHORT).out.startswith("semiar-lstm: identical: 1 ")


def test_settings_reach_model_and_drafter(home: Path, tmp_path: Path) -> None:
    more = (
        "--rows",
        "8",
        "--drafter-rows",
        "8",
        "--set",
        "lora.rank=2",
        "--set",
        "semiar-lstm.recent.settings.cell=gru",
    )
    assert tune(home / "model", home / "rows.jsonl", tmp_path / "bundle", *more).code == 0
    assert json.loads((tmp_path / "bundle/adapter/adapter_config.json").read_text())["r"] == 2
    assert json.loads((tmp_path / "bundle/drafter/config.json").read_text())["config"]["recent"]["settings"] == {
        "cell": "gru"
    }


def test_other_rows_with_fields_of_their_own(home: Path, bundle: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (home / "rows.jsonl").read_text().splitlines()]
    renamed = [json.dumps({"ask": row["prompt"], "say": row["completion"]}) + "\n" for row in rows]
    (tmp_path / "other.jsonl").write_text("".join(renamed))
    more = ("--task", tmp_path / "other.jsonl", "--field", "prompt=ask", "--field", "answer=say", *SHORT)
    said = draftune("check", bundle, "--prompts", 2, *more)
    assert said.out.startswith("semiar-lstm: identical: 2 answers"), said.err
    assert draftune("bench", bundle, "--prompts", 1, "--out", tmp_path / "report", *more).code == 0


def test_all_rows_by_name(home: Path, tmp_path: Path) -> None:
    said = tune(home / "model", home / "rows.jsonl", tmp_path / "bundle", "--set", "adapter_rows=none")
    assert said.code == 0, said.err
    assert json.loads((tmp_path / "bundle" / "run.json").read_text())["arguments"]["adapter_rows"] is None


def test_plain_lora_beside_a_joint_bundle(home: Path, bundle: Path, tmp_path: Path) -> None:
    assert tune(home / "model", home / "rows.jsonl", tmp_path / "joint", "--mode", "joint", "--rows", 8).code == 0
    few = ("--prompts", 1, "--out", tmp_path / "report", "--no-score-base", *SHORT)
    figures = json.loads(draftune("bench", tmp_path / "joint", "--beside", bundle, *few).out.splitlines()[-1])
    assert {"score_joint", "score_tuned"} == {name for name in figures if name.startswith("score_")}
    figures = json.loads(draftune("bench", bundle, "--beside", bundle, *few).out.splitlines()[-1])
    assert {"score_tuned", f"score_{bundle}"} == {name for name in figures if name.startswith("score_")}


def test_an_answer_ends_where_the_context_does(home: Path, bundle: Path) -> None:
    most = context(home)
    for drafter in ("semiar-lstm", "none"):
        said = draftune("generate", bundle, "a" * (most - 60), "--drafter", drafter)
        assert said.code == 0
        assert f"note: the answer ends where the model's context of {most} tokens is full" in said.err


def test_a_conversation_outgrows_the_context(home: Path, bundle: Path) -> None:
    most = context(home)
    line = "a" * (most // 3)
    said = draftune("chat", bundle, *SHORT, input=f"{line}\n{line}\n{line}\n{'a' * 2 * most}\n{PROMPT}\n")
    assert said.code == 0
    assert f"note: the context of {most} tokens is full: its 2 oldest turns are gone" in said.err
    assert f" tokens fill the model's context of {most}; shorten it." in said.err
    assert len(said.out.splitlines()) == 4, "the turn that was too long got no answer, the next one did"


def context(home: Path) -> int:
    """The tokens that the tiny model has room for."""
    return json.loads((home / "model" / "config.json").read_text())["max_position_embeddings"]


def test_adaptive_drafting_says_the_same(bundle: Path, tmp_path: Path) -> None:
    plain = draftune("generate", bundle, PROMPT, *SHORT)
    assert draftune("generate", bundle, PROMPT, *SHORT, "--adaptive").out == plain.out
    said = draftune("bench", bundle, "--prompts", 1, "--no-score-base", "--adaptive", "--out", tmp_path, *SHORT)
    assert json.loads(said.out.splitlines()[-1])["num_identical"] == 1
