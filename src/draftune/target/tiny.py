"""Tiny random models of real families with a tokenizer and chat template, made offline in milliseconds.

They say nonsense, but they are whole: what works on them works on the family. Made for tests and documents.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from draftune import errors
from draftune.target.target import Target

SPECIAL = ("<pad>", "<unk>", "<|im_start|>", "<|im_end|>")
LETTERS = "abcdefghijklmnopqrstuvwxyz \n0123456789.,:;?!'\"()*=<>-_/+|#"
CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WINDOW = 8  # tokens, so that tests soon outgrow it
COMMON = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "initializer_range": 0.25,  # large, so that the likeliest token changes with the prefix
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": 3,
    "tie_word_embeddings": False,
}
MIXED = ["sliding_attention", "full_attention"] * 2
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "mistral": ("mistral", {"sliding_window": WINDOW, "head_dim": 8}),
    "phi3": ("phi3", {"sliding_window": None}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {"head_dim": 8}),
    "gemma2": ("gemma2", {"head_dim": 8, "sliding_window": WINDOW, "layer_types": MIXED}),
    "gemma3": ("gemma3_text", {"head_dim": 8, "sliding_window": WINDOW, "layer_types": MIXED}),
}


def tiny(
    family: str = "llama", *, vocab_size: int = 64, dtype: str = "float64", seed: int = 0, **settings: Any
) -> Target:
    """A random target of `family` on the CPU, the same for the same arguments; `settings` go to its config.

    The tokenizer knows single characters (lower case), or all bytes where `vocab_size` is 260 or more.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    if family not in FAMILIES:
        raise errors.UnknownNameError(
            doing=f"making a tiny {family!r}", met="no such family", todo=errors.nearest(family, FAMILIES)
        )
    model_type, special = FAMILIES[family]
    config = AutoConfig.for_model(model_type, vocab_size=vocab_size, **{**COMMON, **special, **settings})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        kind = {"attn_implementation": "eager"} if family == "gemma2" else {}  # its soft-cap needs it
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype), **kind)
    return Target(model.eval(), tokenizer(vocab_size), f"tiny-{family}")


def save_tiny(folder: Path | str, family: str = "llama", **arguments: Any) -> Target:
    """The target that `tiny` makes, also written to `folder` as an ordinary model folder."""
    target = tiny(family, **arguments)
    target.model.save_pretrained(folder)
    target.tokenizer.save_pretrained(folder)
    return target


def tokenizer(vocab_size: int) -> Any:
    """A tokenizer of at most `vocab_size` ids: four special ones, then characters or bytes."""
    from tokenizers import AddedToken, Tokenizer
    from transformers import PreTrainedTokenizerFast

    inner: Tokenizer = _of_bytes() if vocab_size >= len(SPECIAL) + 256 else _of_letters(vocab_size)
    inner.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    outer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
    )
    outer.chat_template = CHAT
    return outer


def _of_letters(vocab_size: int) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    vocabulary = {token: index for index, token in enumerate([*SPECIAL, *LETTERS][:vocab_size])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.normalizer = normalizers.Lowercase()  # type: ignore[assignment]
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")  # type: ignore[assignment]
    inner.decoder = decoders.Fuse()  # type: ignore[assignment]
    return inner


def _of_bytes() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    inner = Tokenizer(models.BPE({token: index for index, token in enumerate(letters)}, [], unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    inner.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    return inner
