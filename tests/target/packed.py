"""A tiny Llama as a .gguf file, written with the gguf package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from draftune.target import smollm2
from draftune.target.target import Target

NAMES = {theirs: ours for ours, theirs in smollm2.TENSORS.items()}


def write_gguf(target: Target, path: Path, *, kind: str = "F32") -> None:
    """The target at `path`, its matrices packed as `kind` ("F32", "Q8_0"), its norms in float32."""
    from gguf import GGMLQuantizationType, GGUFWriter, quantize

    config = target.causal.config
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_rope_dimension_count(config.head_dim)
    _add_tokenizer(writer, target.tokenizer, config.vocab_size)
    for name, weight in target.causal.state_dict().items():
        if name != "lm_head.weight":
            values = _interleaved(name, weight, config).contiguous().numpy()
            packed = GGMLQuantizationType[kind if values.ndim == 2 else "F32"]
            writer.add_tensor(_name(name), quantize(values, packed), raw_dtype=packed)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: Any, tokenizer: Any, vocab_size: int) -> None:
    known = {
        index: token for token, index in json.loads(tokenizer.backend_tokenizer.to_str())["model"]["vocab"].items()
    }
    known |= {len(known): "Ġt", len(known) + 1: "he"}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([known.get(index, f"<unused{index}>") for index in range(vocab_size)])
    writer.add_token_types([3 if index < 4 or index not in known else 1 for index in range(vocab_size)])
    writer.add_token_merges(["Ġ t", "h e"])
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(3)
    writer.add_unk_token_id(1)
    writer.add_pad_token_id(0)
    writer.add_chat_template(tokenizer.chat_template)


def _name(name: str) -> str:
    parts = name.removesuffix(".weight").split(".")
    if parts[1] != "layers":
        return NAMES[".".join(parts)] + ".weight"
    return f"blk.{parts[2]}.{NAMES['.'.join(parts[3:])]}.weight"


def _interleaved(name: str, weight: Tensor, config: Any) -> Tensor:
    """Rows of queries and keys as llama.cpp orders them: rotary dimensions 0, D/2, 1, D/2 + 1, ..."""
    if ".q_proj." not in name and ".k_proj." not in name:
        return weight
    heads = config.num_attention_heads if ".q_proj." in name else config.num_key_value_heads
    rows, width = weight.shape
    return weight.view(heads, 2, rows // heads // 2, width).transpose(1, 2).reshape(rows, width)
