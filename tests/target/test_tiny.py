"""The tiny models are whole: a tokenizer that gives back what it took, a template, and something to say."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from draftune import errors
from draftune.target.load import load
from draftune.target.tiny import FAMILIES, save_tiny, tiny
from tests.target import ragged

MESSAGES = [{"role": "user", "content": "how many? 3*4\n"}, {"role": "assistant", "content": "12"}]


@pytest.mark.parametrize("family", FAMILIES)
def test_what_follows_depends_on_the_prefix(family: str) -> None:
    """A model that always says the same, or repeats what it read, would prove nothing."""
    likeliest = ragged.plain_logits(tiny(family), ragged.tokens()).argmax(-1)
    assert likeliest.unique().numel() > 20
    assert (likeliest == ragged.tokens()).double().mean() < 0.2
    ends_alike = torch.cat([ragged.tokens()[:, :5], ragged.tokens()[:1, :5].repeat(3, 1)], dim=1)
    last = ragged.plain_logits(tiny(family), ends_alike)
    assert last[:, -1].argmax(-1).unique().numel() > 1


def test_the_same_arguments_make_the_same_model() -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    one, two, three = tiny(seed=1), tiny(seed=1), tiny(seed=2)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one.parts().head_VD, two.parts().head_VD)
    assert not torch.equal(one.parts().head_VD, three.parts().head_VD)
    assert (one.dtype, one.device.type) == (torch.float64, "cpu")


@pytest.mark.parametrize(("vocab_size", "known"), [(64, 62), (300, 260), (1000, 260), (9, 9)])
def test_the_tokenizer_fits_the_vocabulary(vocab_size: int, known: int) -> None:
    target = tiny(vocab_size=vocab_size)
    assert target.shape.vocab_size == vocab_size
    assert len(target.tokenizer) == known
    assert max(target.tokenizer("hello, World? é").input_ids) < vocab_size


@pytest.mark.parametrize("vocab_size", [64, 300])
def test_text_comes_back(vocab_size: int) -> None:
    tokenizer = tiny(vocab_size=vocab_size).tokenizer
    text = tokenizer.apply_chat_template(MESSAGES, tokenize=False)
    assert text == "<|im_start|>user\nhow many? 3*4\n<|im_end|>\n<|im_start|>assistant\n12<|im_end|>\n"
    ids = tokenizer(text, add_special_tokens=False).input_ids
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(ids, skip_special_tokens=True) == "user\nhow many? 3*4\n\nassistant\n12\n"
    assert ids.count(tokenizer.eos_token_id) == 2
    assert tokenizer.unk_token_id not in ids
    prompt = tokenizer.apply_chat_template(MESSAGES[:1], add_generation_prompt=True, return_dict=False)
    assert ids[: len(prompt)] == prompt


def test_bytes_hold_every_text() -> None:
    tokenizer = tiny(vocab_size=260).tokenizer
    assert tokenizer.decode(tokenizer("SELECT Größe\tFROM 表;").input_ids) == "SELECT Größe\tFROM 表;"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_one_is_loaded_the_same(family: str, tmp_path: Path) -> None:
    made = save_tiny(tmp_path / "model", family, vocab_size=300, seed=4)
    loaded = load(str(tmp_path / "model"), dtype="float64", device="cpu")
    assert torch.equal(ragged.plain_logits(loaded, ragged.tokens()), ragged.plain_logits(made, ragged.tokens()))
    assert loaded.fingerprint() == made.fingerprint()
    texts = [target.tokenizer.apply_chat_template(MESSAGES, return_dict=False) for target in (made, loaded)]
    assert texts[0] == texts[1]
    assert loaded.tokenizer.pad_token == "<pad>"
    assert not any(weight.requires_grad for weight in loaded.model.parameters())


def test_unknown_family() -> None:
    with pytest.raises(errors.UnknownNameError, match="'mistrel': no such family; did you mean 'mistral'"):
        tiny("mistrel")
