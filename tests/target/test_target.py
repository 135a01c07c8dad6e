"""What a target computes, lends and is known by."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from draftune.target import device, lora
from draftune.target.base import FINAL
from draftune.target.target import Target
from draftune.target.tiny import FAMILIES, tiny
from tests.target import ragged
from tests.target.test_runner import other

LENGTHS = torch.tensor([5, 9, 12])
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_logits_equal_those_of_the_whole_model(family: str) -> None:
    target, tokens_BT = tiny(family), ragged.tokens()[:, :12]
    hidden = target.hidden(tokens_BT, LENGTHS).tap(FINAL)
    wanted = ragged.plain_logits(target, tokens_BT)
    assert torch.equal(target.logits(hidden), wanted)
    torch.testing.assert_close(target.logits(hidden[1, 3]), wanted[1, 3])
    some = torch.tensor([3, 9, 40])
    torch.testing.assert_close(target.logits(hidden, some), wanted[..., some])


@pytest.mark.parametrize(
    ("model_type", "settings"),
    [
        ("granite", {"logits_scaling": 8.0, "embedding_multiplier": 12.0}),
        ("cohere", {"logit_scale": 0.25}),
        ("opt", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
        ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4}),
        ("qwen3_moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 8}),
    ],
)
@torch.no_grad()
def test_logits_and_parts_of_families_with_scales_of_their_own(model_type: str, settings: dict) -> None:
    target, tokens_BT = other(model_type, **(settings if model_type == "gpt2" else SIZES | settings)), ragged.tokens()
    hidden = target.hidden(tokens_BT, torch.full((3,), ragged.TOTAL)).tap(FINAL)
    wanted, some = ragged.plain_logits(target, tokens_BT), torch.tensor([3, 9, 40])
    assert torch.equal(target.logits(hidden), wanted)
    torch.testing.assert_close(target.logits(hidden, some), wanted[..., some])
    parts = target.parts()
    torch.testing.assert_close(hidden @ parts.head_VD.T, target.logits(hidden), rtol=1e-3, atol=1e-3)
    stored = target.causal.get_input_embeddings().weight
    torch.testing.assert_close(parts.embedding_VD, stored * settings.get("embedding_multiplier", 1.0))


def first_layer_input(target: Target, tokens: Tensor) -> Tensor:
    seen: list[Tensor] = []
    handle = target.layers[0].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    target.body(input_ids=tokens[None])
    handle.remove()
    return seen[0][0]


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_parts_are_what_the_model_uses(family: str) -> None:
    target = tiny(family)
    parts, every = target.parts(), torch.arange(64)
    assert torch.equal(parts.embedding_VD, first_layer_input(target, every))
    hidden = target.hidden(every[None], torch.tensor([64])).tap(FINAL)[0]
    logits = hidden @ parts.head_VD.T
    if family == "gemma2":  # its soft-cap is no matrix
        logits = 30 * torch.tanh(logits / 30)
    torch.testing.assert_close(logits, target.logits(hidden))
    assert parts.head_bias_V is None
    assert parts.shape == target.shape


def test_parts_are_shared_where_they_are_used_as_stored() -> None:
    target = tiny("llama", tie_word_embeddings=True)
    parts = target.parts()
    stored = target.causal.get_input_embeddings().weight
    assert parts.embedding_VD.data_ptr() == parts.head_VD.data_ptr() == stored.data_ptr()
    assert not parts.embedding_VD.requires_grad
    rough = tiny("llama", dtype="bfloat16")  # rounding is not taken for a scale
    assert rough.parts().head_VD.data_ptr() == rough.causal.get_output_embeddings().weight.data_ptr()
    tied = tiny("gemma3", tie_word_embeddings=True).parts()
    assert not torch.equal(tied.embedding_VD, tied.head_VD)


@torch.no_grad()
def test_parts_follow_an_adapter_on_embedding_and_head() -> None:
    target = lora.add(tiny(), lora.LoraSettings(modules="embed_tokens,lm_head,q_proj"))
    for name, weight in target.model.named_parameters():
        if "lora_" in name:
            weight.normal_(generator=torch.Generator().manual_seed(len(name)))
    parts, every = target.parts(), torch.arange(64)
    torch.testing.assert_close(parts.embedding_VD, first_layer_input(target, every))
    hidden = target.hidden(every[None], torch.tensor([64])).tap(FINAL)[0]
    torch.testing.assert_close(hidden @ parts.head_VD.T, target.logits(hidden))
    assert not torch.allclose(parts.head_VD, target.causal.get_output_embeddings().weight)


def test_hidden_is_differentiable_and_blind_to_padding() -> None:
    target = lora.add(tiny("gemma3"))
    tokens_BT = ragged.tokens()[:, :12]
    padded_BT = tokens_BT.clone()
    for row, length in enumerate(LENGTHS.tolist()):
        padded_BT[row, length:] = 0
    one, other_one = target.hidden(tokens_BT, LENGTHS, (0, FINAL)), target.hidden(padded_BT, LENGTHS, (0, FINAL))
    for row, length in enumerate(LENGTHS.tolist()):
        assert torch.equal(one.hidden[row, :length], other_one.hidden[row, :length])
    one.tap(0).square().sum().backward()
    moved = {name for name, weight in target.model.named_parameters() if weight.grad is not None and weight.grad.any()}
    assert moved
    assert all("layers.0." in name and "lora_B" in name for name in moved)


def test_lengths_must_name_every_row() -> None:
    with pytest.raises(ValueError, match="3 rows with 2 lengths"):
        tiny().hidden(ragged.tokens(), torch.tensor([4, 4]))


def test_shape() -> None:
    shape = tiny("qwen3", vocab_size=100, max_position_embeddings=77).shape
    assert (shape.vocab_size, shape.hidden_size, shape.num_layers, shape.max_length) == (100, 32, 4, 77)


def test_fingerprint_is_of_the_weights_alone() -> None:
    assert tiny().fingerprint() == tiny().fingerprint()
    rounded = tiny(dtype="float32")
    rounded.model.to(torch.bfloat16)
    assert rounded.fingerprint() == tiny(dtype="float32").fingerprint()
    assert len({tiny(family, seed=seed).fingerprint() for family in FAMILIES for seed in (0, 1)}) == 2 * len(FAMILIES)


def test_fingerprint_sees_one_changed_row() -> None:
    target = tiny()
    before = target.fingerprint()
    with torch.no_grad():
        target.layers[2].mlp.down_proj.weight[-1].mul_(1.5)  # type: ignore[union-attr]
    assert target.fingerprint() != before


def test_precision() -> None:
    cpu = torch.device("cpu")
    assert device.choose("cpu") == cpu
    assert device.precision("auto", cpu) is (torch.bfloat16 if device.computes_bfloat16(cpu) else torch.float32)
    assert device.precision("fp64", cpu) is torch.float64
    with pytest.raises(ValueError, match="precision 'float23': no such dtype; did you mean 'float32'"):
        device.precision("float23", cpu)
    with pytest.raises(ValueError, match=r"device 'gpu': .*; choose auto, cpu, cuda"):
        device.choose("gpu")


def test_parts_are_lent_without_dropout() -> None:
    target = tiny()
    adapted = lora.add(target, lora.LoraSettings(rank=2, dropout=0.5, modules="q_proj,lm_head"))
    for parameter in adapted.model.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter)
    wanted = adapted.model.eval() and adapted.parts()
    adapted.model.train()
    lent = adapted.parts()
    assert adapted.model.training
    assert torch.equal(lent.head_VD, wanted.head_VD)
