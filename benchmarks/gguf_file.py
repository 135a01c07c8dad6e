"""A Llama of transformers written as .gguf, so that llama.cpp reads the very weights that are compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import torch
from gguf.quants import quantize
from transformers import AutoModelForCausalLM

from draftune.target import smollm2

NAMES = {ours: theirs for theirs, ours in smollm2.TENSORS.items()}
CONTROL, NORMAL = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL


def write(folder: Path, out: Path, kind: gguf.GGMLQuantizationType) -> Path:
    """`out`, holding the model of `folder` with its matrices as `kind`, all else in float32."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    config, writer = model.config, gguf.GGUFWriter(out, "llama")
    _describe(writer, config)
    _tokens(writer, folder)
    for name, weight in model.state_dict().items():
        if name.startswith("lm_head") and config.tie_word_embeddings:
            continue
        if ".q_proj" in name or ".k_proj" in name:
            heads = config.num_attention_heads if ".q_proj" in name else config.num_key_value_heads
            weight = _neighbours(weight, heads)
        if weight.dim() == 1:
            writer.add_tensor(_name(name), weight.numpy())
        else:
            writer.add_tensor(_name(name), quantize(weight.contiguous().numpy(), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def _describe(writer: gguf.GGUFWriter, config: Any) -> None:
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)


def _tokens(writer: gguf.GGUFWriter, folder: Path) -> None:
    written = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    added = {one["content"]: one["id"] for one in written["added_tokens"]}
    by_id = {number: token for token, number in (written["model"]["vocab"] | added).items()}
    merges = [one if isinstance(one, str) else " ".join(one) for one in written["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([by_id[number] for number in range(len(by_id))])
    writer.add_token_types([CONTROL if by_id[number] in added else NORMAL for number in range(len(by_id))])
    writer.add_token_merges(merges)


def _name(name: str) -> str:
    """llama.cpp's name of a weight."""
    whole = name.removesuffix(".weight")
    if whole in NAMES:
        return f"{NAMES[whole]}.weight"
    _, _, layer, part = whole.split(".", 3)
    return f"blk.{layer}.{NAMES[part]}.weight"


def _neighbours(weight_ND: torch.Tensor, heads: int) -> torch.Tensor:
    """llama.cpp turns neighbouring rows of queries and keys together, transformers those half a head apart."""
    return weight_ND.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)
