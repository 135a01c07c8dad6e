"""A drafter comes back from disk as it was, and only for the target it belongs to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from draftune import config as configs
from draftune import errors
from draftune.decode.loop import Decoder
from draftune.drafters import store
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.target.tiny import tiny
from draftune.types import Request

NAMES = list(DRAFTERS.entries())


def stored(name: str, folder: Path):
    target, vocabulary = tiny(), Vocabulary(torch.arange(3, 30), 64)
    config = DRAFTERS.load(name)()
    drafter = config.build(target.parts(), vocabulary)
    store.save(drafter, name, config, folder, shape=target.shape, vocabulary=vocabulary, extra={"tau": 2.5})
    return target, drafter


@pytest.mark.parametrize("name", NAMES)
def test_a_drafter_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    target, drafter = stored(name, tmp_path)
    loaded, card = store.load(tmp_path, target.parts())
    assert (card.name, card.extra, card.config) == (name, {"tau": 2.5}, DRAFTERS.load(name)())
    assert loaded.state_dict().keys() == drafter.state_dict().keys()
    for key, tensor in drafter.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[key])
    request = Request(id="a", prompt=(4, 5, 6), max_new_tokens=8)
    assert Decoder(target.runner(), loaded).generate([request]) == Decoder(target.runner(), drafter).generate([request])


def test_nothing_that_the_target_lends_is_stored(tmp_path: Path) -> None:
    stored("semiar-state", tmp_path)
    import safetensors.torch

    tensors = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert not [key for key, tensor in tensors.items() if 27 in tensor.shape and key != store.VOCABULARY_IDS]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"hidden_size": 16}, "trained for a target of width 32, met one of 16"),
        ({"vocab_size": 80}, "trained for a target of vocabulary 64, met one of 80"),
    ],
)
def test_a_drafter_of_another_target_is_refused(settings: dict, sentence: str, tmp_path: Path) -> None:
    stored("semiar-gru", tmp_path)
    with pytest.raises(errors.MismatchError, match=sentence):
        store.load(tmp_path, tiny("llama", **settings).parts())


def test_damaged_folders_say_so(tmp_path: Path) -> None:
    target, _ = stored("semiar-gru", tmp_path)
    with pytest.raises(errors.StorageError, match="give a folder that draftune wrote"):
        store.load(tmp_path / "nowhere", target.parts())
    weights = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(errors.StorageError, match="loading the drafter in"):
        store.load(tmp_path, target.parts())


def test_settings_are_checked_by_the_part_that_owns_them() -> None:
    config = DRAFTERS.load("semiar-lstm")()
    parts, vocabulary = tiny().parts(), Vocabulary.full(64)
    narrow = configs.override(config, ["recent.settings.width=8"], doing="choosing a drafter")
    assert narrow.build(parts, vocabulary).recent.width == 8
    wrong = configs.override(config, ["recent.settings.wdith=8"], doing="choosing a drafter")
    with pytest.raises(errors.ConfigError, match=r"unknown setting 'wdith'; did you mean 'width'\?"):
        wrong.build(parts, vocabulary)
    with pytest.raises(
        errors.UnknownNameError, match=r"drafter 'semiar-lstn': no such name; did you mean 'semiar-lstm'\?"
    ):
        DRAFTERS.load("semiar-lstn")


@pytest.mark.parametrize("key", store.KEYS)
def test_a_config_that_lacks_a_key_says_so(key: str, tmp_path: Path) -> None:
    target, _ = stored("semiar-gru", tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    del settings[key]
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(errors.StorageError, match=f"it has no '{key}'; give a folder that draftune wrote"):
        store.load(tmp_path, target.parts())


@pytest.mark.parametrize(
    ("name", "setting", "sentence"),
    [
        ("semiar-fixed", "recent.settings.heads=0", "building a fixed-attention drafter: heads = 0; give at least 1"),
        ("semiar-fixed", "recent.settings.window=0", "window = 0; give at least 1"),
        ("semiar-fixed", "recent.settings.inner=-1", "inner = -1; give at least 0"),
        ("semiar-state", "recent.settings.inner=-1", "building a state drafter: inner = -1; give at least 0"),
        ("semiar-lstm", "recent.settings.width=-1", "building a recurrent drafter: width = -1; give at least 0"),
        ("semiar-lstm", "head.settings.inner=-1", "building an mlp head: inner = -1; give at least 0"),
        ("medusa", "context.settings.num_drafts=0", "building a residual context: num_drafts = 0; give at least 1"),
    ],
)
def test_impossible_settings_are_refused_without_a_target(name: str, setting: str, sentence: str) -> None:
    config = configs.override(DRAFTERS.load(name)(), [setting], doing="choosing a drafter")
    with pytest.raises(errors.ConfigError, match=sentence):
        config.for_drafts(5)


def test_a_drafter_that_cannot_learn_is_refused() -> None:
    config = configs.override(DRAFTERS.load("medusa")(), ["context.kind=hidden"], doing="choosing a drafter")
    with pytest.raises(errors.ConfigError, match="hidden, nothing and target: none of its parts can learn"):
        config.build(tiny().parts(), Vocabulary.full(64))


def test_a_context_for_each_offset_takes_the_k_of_its_run() -> None:
    medusa, gru = DRAFTERS.load("medusa")(), DRAFTERS.load("semiar-gru")()
    parts, vocabulary = tiny().parts(), Vocabulary.full(64)
    assert medusa.for_drafts(3).build(parts, vocabulary).max_drafts == 3
    chosen = configs.override(medusa, ["context.settings.num_drafts=4"], doing="choosing a drafter")
    assert chosen.for_drafts(3).build(parts, vocabulary).max_drafts == 4
    assert gru.for_drafts(3) == gru


def begun(name: str, folder: Path, ids: torch.Tensor, **changes):
    target, config = tiny(), DRAFTERS.load(name)()
    config = configs.override(config, [f"{key}={value}" for key, value in changes.items()], doing="")
    drafter = config.build(target.parts(), Vocabulary(ids, 64))
    before = {key: tensor.clone() for key, tensor in drafter.state_dict().items()}
    store.begin_from(folder, drafter, name, config, target.parts(), ids)
    return before, drafter


@pytest.mark.parametrize("inside", ["", "drafter", "drafters/semiar-gru"])
@torch.no_grad()
def test_a_drafter_begins_with_the_weights_of_another_over_other_tokens(inside: str, tmp_path: Path) -> None:
    (tmp_path / inside).mkdir(parents=True, exist_ok=True)
    _, known = stored("semiar-gru", tmp_path / inside)
    ids = torch.tensor([2, 5, 29, 41])
    before, drafter = begun("semiar-gru", tmp_path, ids)
    mine, theirs = drafter.state_dict(), known.state_dict()
    out = "head.out.weight"
    assert torch.equal(mine[out][1:3], theirs[out][torch.tensor([2, 26])]), "tokens 5 and 29, of 3..29"
    assert torch.equal(mine[out][::3], before[out][::3]), "tokens that it did not know stay fresh"
    others = [key for key in mine if not key.startswith("head.out")]
    assert others
    assert all(torch.equal(mine[key], theirs[key]) for key in others)


@torch.no_grad()
def test_a_drafter_to_begin_with_must_be_of_the_same_parts(tmp_path: Path) -> None:
    stored("semiar-gru", tmp_path)
    with pytest.raises(errors.StorageError, match="it holds no drafter 'medusa'"):
        begun("medusa", tmp_path, torch.arange(3, 30))
    with pytest.raises(errors.MismatchError, match="is another or none"):
        begun("semiar-gru", tmp_path, torch.arange(3, 30), **{"head.settings.inner": 48})
