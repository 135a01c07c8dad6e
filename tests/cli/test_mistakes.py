"""A mistake is told in one sentence on stderr, leaves with 2, and costs no time: what was done, met, and what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftune.cli import app
from draftune.drafters.table import DRAFTERS
from tests.cli.conftest import Said, draftune, tune

KNOWN = "known are " + ", ".join(sorted(DRAFTERS.entries()))


def tells(said: Said, sentence: str) -> None:
    """The command wrote exactly this sentence, and nothing to stdout."""
    assert (said.out, said.err, said.code) == ("", f"error: {sentence}\n", 2)


@pytest.fixture
def start(home: Path, tmp_path: Path) -> Iterator[list]:
    """The beginning of a `tune` that must leave nothing behind."""
    yield ["tune", home / "model", home / "rows.jsonl", "--out", tmp_path / "bundle"]
    assert os.listdir(tmp_path) == []


def test_missing_rows(home: Path, start: list) -> None:
    rows = home / "nothing.jsonl"
    said = draftune(*start[:2], rows, *start[3:])
    tells(said, f"reading {rows}: there is no such file; check the path.")


def test_missing_model(home: Path, start: list) -> None:
    model = home / "nothing"
    said = draftune(start[0], model, *start[2:])
    tells(said, f"loading '{model}': there is no such file or folder; check the path.")


@pytest.mark.parametrize(
    ("verb", "sentence"),
    [
        ("tune", "reading the training settings: num_drafts = 0; give at least 1."),
        ("generate", "setting up decoding: K = 0 drafts a round; give 1 or more, or decode plainly."),
        ("chat", "setting up decoding: K = 0 drafts a round; give 1 or more, or decode plainly."),
        ("check", "setting up decoding: K = 0 drafts a round; give 1 or more, or decode plainly."),
        ("bench", "reading the benchmark's settings: num_drafts = 0; give at least 1."),
    ],
)
def test_no_drafts_at_all(start: list, bundle: Path, verb: str, sentence: str) -> None:
    arguments = {"tune": start, "generate": ["generate", bundle, "hello"]}.get(verb, [verb, bundle])
    tells(draftune(*arguments, "-k", 0), sentence)


def test_an_unknown_drafter(start: list) -> None:
    doing = "looking up the drafter 'semiar-lst'"
    tells(draftune(*start, "--drafter", "semiar-lst"), f"{doing}: no such name; did you mean 'semiar-lstm'?")
    tells(draftune(*start, "--drafter", "x"), f"looking up the drafter 'x': no such name; {KNOWN}.")


@pytest.mark.parametrize("verb", ["generate", "chat", "check", "bench"])
def test_a_drafter_that_the_bundle_lacks(bundle: Path, verb: str) -> None:
    arguments = ["generate", bundle, "hello"] if verb == "generate" else [verb, bundle]
    said = draftune(*arguments, "--drafter", "medsa")
    tells(said, f"reading the bundle {bundle}: it holds no drafter 'medsa'; did you mean 'medusa'?")


@pytest.mark.parametrize("verb", ["generate", "chat", "check", "bench"])
def test_no_bundle(home: Path, verb: str) -> None:
    for folder, met in ((home / "nothing", "no such folder"), (home / "model", "it has no bundle.json")):
        arguments = ["generate", folder, "hello"] if verb == "generate" else [verb, folder]
        tells(draftune(*arguments), f"reading the bundle {folder}: {met}; give a folder that `draftune tune` wrote.")


def test_check_needs_a_drafter(bundle: Path) -> None:
    said = draftune("check", bundle, "--drafter", "none")
    tells(said, "checking a bundle: no drafter to compare with plain decoding; name a drafter of the bundle.")


def test_a_place_that_is_taken(home: Path, start: list) -> None:
    said = draftune(*start[:4], home / "model")
    met = "something that is no bundle is there (it has no bundle.json)"
    tells(said, f"writing the bundle {home / 'model'}: {met}; choose another folder.")


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("lora.rnk=2", ", setting 'lora': unknown setting 'rnk'; did you mean 'rank'?"),
        ("lr_drafter", ": 'lr_drafter' has no '='; write NAME=VALUE."),
        ("batch_size=0", ": batch_size = 0; give at least 1."),
        (
            "medusa.head.kind=mlp",
            ": 'medusa.head.kind=mlp' where medusa is not trained; add --drafter medusa, or leave it out.",
        ),
    ],
)
def test_a_setting_that_cannot_be_honoured(start: list, setting: str, sentence: str) -> None:
    tells(draftune(*start, "--set", setting), f"reading the training settings{sentence}")


def test_an_unknown_part(start: list) -> None:
    said = draftune(*start, "--set", "semiar-lstm.recent.kind=recurent")
    assert said.code == 2
    last = said.err.splitlines()[-1]
    assert last == "error: looking up the recent-token model 'recurent': no such name; did you mean 'recurrent'?"


def test_a_field_without_a_meaning(start: list) -> None:
    said = draftune(*start, "--field", "prompt")
    tells(said, "reading a field mapping: 'prompt' has no '='; write prompt=FIELD and answer=FIELD.")


def test_prompts_that_are_none(bundle: Path, tmp_path: Path) -> None:
    tells(
        draftune("generate", bundle, input=" \n"),
        "reading the prompt: no text; give it as an argument, by --file or on stdin.",
    )
    both = draftune("generate", bundle, "hello", "--file", "prompt.txt")
    tells(both, "reading the prompt: both a prompt and --file; give one of them.")
    file = tmp_path / "prompt.txt"
    said = draftune("generate", bundle, "--file", file)
    tells(said, f"reading the prompt from {file}: no such file or directory; give a text file.")
    file.write_bytes(b"\xff\xfe\xff")
    assert draftune("generate", bundle, "--file", file).err.endswith("; give a text file.\n")


def test_more_drafts_than_were_trained(bundle: Path) -> None:
    said = draftune("generate", bundle, "hello", "--drafter", "medusa", "-k", 6)
    assert said.code == 2
    assert said.err.startswith("error: setting up decoding: K = 6 from a drafter made for at most 5; ")


def test_an_option_that_is_none(bundle: Path) -> None:
    said = draftune("generate", bundle, "hello", "--rule", "mach")
    met = "'mach' does not fit (input should be 'auto', 'match' or 'rejection')"
    tells(said, f"reading the decoding settings, setting 'rule': {met}; correct the value.")
    said = draftune("generate", bundle, "hello", "--temprature", 1)
    assert said.code == 2
    assert said.out == ""
    assert "--temperature" in said.err


def test_a_sentence_with_brackets_is_not_markup(tmp_path: Path) -> None:
    folder = tmp_path / "[bold]"
    said = draftune("check", folder)
    tells(said, f"reading the bundle {folder}: no such folder; give a folder that `draftune tune` wrote.")


def test_a_run_is_not_written_over(home: Path, tmp_path: Path) -> None:
    begun = tmp_path / "bundle.training" / "train" / "stages"
    begun.mkdir(parents=True)
    said = tune(home / "model", home / "rows.jsonl", tmp_path / "bundle")
    work = tmp_path / "bundle.training"
    assert said.code == 2
    assert said.err.splitlines()[-1] == (
        f"error: starting a run in {work}: it holds a run already; resume that one, or choose another folder."
    )
    assert begun.is_dir()


def test_ctrl_c_leaves_with_130(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def isatty(self) -> bool:
            return False

        def readline(self) -> str:
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", Interrupted())
    with pytest.raises(SystemExit) as left:
        app(["chat", str(bundle), "--dtype", "float32"])
    assert left.value.code == 130


def test_an_impossible_part_is_refused_before_the_model_is_looked_for(start: list) -> None:
    said = draftune("tune", "no/such/model", *start[2:], "--drafter", "semiar-fixed", "--set",
                    "semiar-fixed.recent.settings.heads=0")  # fmt: skip
    tells(said, "building a fixed-attention drafter: heads = 0; give at least 1.")


def test_more_drafts_than_heads(home: Path, tmp_path: Path) -> None:
    few = ("--rows", 8, "--drafter-rows", 8, "--drafter", "medusa", "-k", 2)
    assert tune(home / "model", home / "rows.jsonl", tmp_path / "bundle", *few).code == 0
    assert draftune("generate", tmp_path / "bundle", "hello", "--max-new-tokens", 8).code == 0, "2 without being asked"
    said = draftune("generate", tmp_path / "bundle", "hello", "-k", 3)
    met = "K = 3 from a drafter made for at most 2"
    tells(said, f"setting up decoding: {met}; ask for at most 2 drafts or train a drafter with more heads.")


def test_fields_of_rows_that_are_not_named(bundle: Path) -> None:
    said = draftune("check", bundle, "--field", "prompt=question")
    todo = "name the rows by --task, or leave it out: the bundle knows its own"
    tells(said, f"choosing the rows: --field without --task; {todo}.")


def test_a_prompt_longer_than_the_context(bundle: Path) -> None:
    said = draftune("generate", bundle, "a" * 3000)
    assert said.code == 2
    assert " tokens fill the model's context of " in said.err
    assert said.err.endswith("; shorten it.\n")
