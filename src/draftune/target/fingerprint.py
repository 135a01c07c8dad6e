"""A hash of a base model and its active adapter: cheap, and the same in every precision."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

SAMPLES = 256  # elements read of each base weight; an adapter is read whole
_REMEMBERED: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
TRAITS = ("model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")


def of(model: Any) -> str:
    """16 hex digits for a PreTrainedModel or PeftModel.

    Weights are compared in bfloat16, so that a model saved in one precision and loaded in another is itself again.
    """
    adapted = hasattr(model, "peft_config")
    causal = model.get_base_model() if adapted else model
    digest = hashlib.sha256((_REMEMBERED.get(causal) or _base(model, causal)).encode())
    if adapted:
        for name, weight in _adapter_weights(model):
            _add(digest, name, weight)
    return digest.hexdigest()[:16]


def remember(causal: Any) -> None:
    """Keep a bare model's hash, for it is about to be cast to float16, which loses more than bfloat16 has."""
    _REMEMBERED[causal] = _base(causal, causal)


def _base(model: Any, causal: Any) -> str:
    digest = hashlib.sha256(json.dumps([getattr(causal.config, trait, None) for trait in TRAITS]).encode())
    for name, weight in _base_weights(model, causal):
        step = max(1, weight.numel() // SAMPLES)
        _add(digest, name, weight.detach().flatten()[::step][:SAMPLES])
    return digest.hexdigest()


def _add(digest: Any, name: str, weight: Tensor) -> None:
    digest.update(f"{name}{tuple(weight.shape)}".encode())
    digest.update(weight.detach().to("cpu", torch.bfloat16).contiguous().view(torch.uint8).numpy().tobytes())


def _base_weights(model: Any, causal: Any) -> Iterator[tuple[str, Tensor]]:
    prefix = getattr(model.base_model, "prefix", None) if causal is not model else None
    weights = {}
    for name, weight in causal.named_parameters():
        if prefix is None or (prefix not in name and ".modules_to_save." not in name):
            weights[name.replace(".base_layer.", ".").replace(".original_module.", ".")] = weight
    yield from sorted(weights.items())


def _adapter_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    from peft import get_peft_model_state_dict

    for adapter in model.active_adapters:
        yield from sorted(get_peft_model_state_dict(model, adapter_name=adapter, save_embedding_layers=False).items())
