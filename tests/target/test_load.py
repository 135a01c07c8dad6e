"""Every way to name a target, and every way to name one wrongly."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from draftune import errors
from draftune.target import lora
from draftune.target.load import load
from draftune.target.tiny import save_tiny, tiny
from tests.target import ragged
from tests.target.test_lora import shaken


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    save_tiny(folder, vocab_size=300, dtype="float32")
    return folder


@pytest.fixture
def copied(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "model"))


def edited(folder: Path, name: str, **changes: object) -> Path:
    settings = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**settings, **changes}))
    return folder


def refused(source: Path | str, sentence: str) -> None:
    with pytest.raises(errors.TargetError, match=sentence) as met:
        load(str(source), device="cpu")
    assert "\n" not in str(met.value)


def test_a_folder(model: Path) -> None:
    target = load(str(model), dtype="fp32", device="cpu")
    assert (target.name, target.dtype, target.device.type) == (str(model), torch.float32, "cpu")
    assert load(str(model), dtype="bf16", device="cpu").dtype is torch.bfloat16
    assert not target.model.training


def test_an_adapter_folder_brings_its_base(model: Path, tmp_path: Path) -> None:
    target = shaken(lora.add(load(str(model), dtype="fp32", device="cpu")))
    lora.save(target, tmp_path / "adapter")
    again = load(str(tmp_path / "adapter"), dtype="fp32", device="cpu")
    assert lora.has_adapter(again)
    assert again.fingerprint() == target.fingerprint()
    assert torch.equal(ragged.plain_logits(again, ragged.tokens()), ragged.plain_logits(target, ragged.tokens()))


def test_an_adapter_folder_without_a_base(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    refused(tmp_path, "it is an adapter that does not name its base model; load the base model and attach")


def test_a_gguf_file(tmp_path: Path) -> None:
    """Written with the gguf package as llama.cpp would, unpacked, and able to speak and to be trained."""
    from tests.target.packed import write_gguf

    made = tiny("llama", dtype="float32", vocab_size=300, hidden_size=32, tie_word_embeddings=True)
    write_gguf(made, tmp_path / "model.gguf")
    target = load(str(tmp_path / "model.gguf"), dtype="fp32", device="cpu")
    wanted, said = ragged.plain_logits(made, ragged.tokens()), ragged.plain_logits(target, ragged.tokens())
    assert torch.equal(said, wanted)
    assert target.fingerprint() == made.fingerprint()
    assert not hasattr(target.causal.config, "quantization_config")
    target.model.save_pretrained(tmp_path / "unpacked")
    lora.add(target)


def test_a_missing_folder(tmp_path: Path) -> None:
    refused(tmp_path / "nothing", "nothing': there is no such file or folder; check the path")
    refused("./nothing", "'./nothing': there is no such file or folder")
    refused("nothing.gguf", "'nothing.gguf': there is no such file or folder")


def test_a_name_nobody_knows() -> None:
    refused("smollm2-135", "loading 'smollm2-135': .*; did you mean 'smollm2-135m'")


def test_a_hub_that_cannot_be_reached() -> None:
    refused("someone/some-model", "some-model': the hub cannot be reached, .*; check the hub id and the network")


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    refused(tmp_path / "notes.txt", "the file is no .gguf; give a model folder, a .gguf file or a hub id")
    (tmp_path / "model.gguf").write_text("hello")
    refused(tmp_path / "model.gguf", "model.gguf': .*GGUF")


def test_an_empty_folder(tmp_path: Path) -> None:
    refused(tmp_path, "loading '.*; give a folder with the config, weights and tokenizer of one model")


def test_a_broken_config(copied: Path) -> None:
    (copied / "config.json").write_text("{")
    refused(copied, "loading '.*not a valid JSON file; give a folder")


def test_no_tokenizer(copied: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (copied / name).unlink()
    refused(copied, "its tokenizer: .*; add the tokenizer's files to it")


def test_another_kind_of_model(copied: Path) -> None:
    edited(copied, "config.json", architectures=["LlamaForSequenceClassification"])
    refused(copied, "it is a LlamaForSequenceClassification, not a causal language model")


def test_an_encoder_decoder(tmp_path: Path) -> None:
    from transformers import T5Config

    T5Config(d_model=16, architectures=["T5ForConditionalGeneration"]).save_pretrained(tmp_path)
    refused(tmp_path, "it is a T5ForConditionalGeneration, not a causal language model")


def test_a_model_type_nobody_knows(copied: Path) -> None:
    refused(edited(copied, "config.json", model_type="llamb"), "llamb")


def test_an_incomplete_checkpoint(copied: Path) -> None:
    refused(edited(copied, "config.json", num_hidden_layers=5), r"weights are missing, such as 'model\.layers\.4\.")


def test_weights_of_another_shape(copied: Path) -> None:
    refused(edited(copied, "config.json", intermediate_size=64), "12 weights have other shapes than it says, such as")


def test_weights_cut_short(copied: Path) -> None:
    whole = (copied / "model.safetensors").read_bytes()
    (copied / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    refused(copied, "loading '.*; use a complete checkpoint")


def test_a_tokenizer_without_a_pad_token_gets_one_it_knows(copied: Path) -> None:
    settings = json.loads((copied / "tokenizer_config.json").read_text())
    settings.pop("pad_token")
    (copied / "tokenizer_config.json").write_text(json.dumps(settings))
    target = load(str(copied), device="cpu")
    assert target.tokenizer.pad_token == "<unk>"
    assert target.shape.vocab_size == 300


def test_gemma2_keeps_its_soft_cap(tmp_path: Path) -> None:
    made = save_tiny(tmp_path, "gemma2", dtype="float32", attn_logit_softcapping=0.5)
    target = load(str(tmp_path), dtype="fp32", device="cpu")
    assert torch.equal(ragged.plain_logits(target, ragged.tokens()), ragged.plain_logits(made, ragged.tokens()))
    loose = tiny("gemma2", dtype="float32", attn_logit_softcapping=None)
    assert (ragged.plain_logits(loose, ragged.tokens()) - ragged.plain_logits(made, ragged.tokens())).abs().max() > 0.05


def test_a_model_is_itself_in_float16(tmp_path: Path) -> None:
    """Weights that bfloat16 holds and float16 does not, bare and with an adapter."""
    save_tiny(tmp_path / "model", dtype="bfloat16", initializer_range=1e-6)
    adapted = lora.add(load(str(tmp_path / "model"), dtype="bfloat16"), lora.LoraSettings(rank=2))
    lora.save(adapted, tmp_path / "adapter")
    for source in ("model", "adapter"):
        folder = str(tmp_path / source)
        half, whole = load(folder, dtype="float16"), load(folder, dtype="float32")
        assert half.dtype == torch.float16
        assert half.fingerprint() == whole.fingerprint()
