"""Where the organs of a transformers causal LM lie: body, decoder layers, head, sliding windows."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from draftune import errors
from draftune.target.base import FINAL

NO_LIMIT = 1 << 20  # tokens; for the few families whose config names no longest position
MASKED = ("full_attention", "sliding_attention")  # layer types whose mask is known here


def body_name(causal: nn.Module) -> str:
    """Name of the child that turns token ids into final-norm hidden states ("model", "transformer", ...)."""
    decoder = causal.get_decoder()  # type: ignore[operator]
    for name, child in causal.named_children():
        if child is decoder or any(module is decoder for module in child.modules()):
            return name
    raise _unserved(causal, "its decoder cannot be found")


def decoder_layers(body: nn.Module, num_layers: int) -> nn.ModuleList:
    """The list of decoder layers, the one module list that has `num_layers` entries."""
    for module in body.modules():
        if isinstance(module, nn.ModuleList) and len(module) == num_layers:
            return module
    raise _unserved(body, f"no list of {num_layers} decoder layers was found in it")


def cache_argument(body: nn.Module) -> str:
    """The keyword under which the body takes its cache: `cache`, or `past_key_values` before transformers 5.24."""
    parameters = inspect.signature(body.forward).parameters
    name = "cache" if "cache" in parameters else "past_key_values"
    missing = {name, "position_ids", "attention_mask"} - set(parameters)
    if missing:
        raise _unserved(body, f"its forward takes no {' and no '.join(sorted(missing))}")
    return name


def max_length(config: Any) -> int:
    """The longest sequence whose positions are encoded by one rule, in tokens.

    `longrope` and `dynamic` choose their frequencies by the longest row of a whole batch, so beyond the original
    length a row would depend on its neighbours and on the drafts after it: that length is the limit here.
    """
    longest = getattr(config, "max_position_embeddings", None) or NO_LIMIT
    rope = getattr(config, "rope_parameters", None) or {}
    settings = [rope] if "rope_type" in rope else [value for value in rope.values() if isinstance(value, dict)]
    for one in settings:
        if one.get("rope_type") in ("longrope", "dynamic"):
            original = one.get("original_max_position_embeddings")
            longest = min(longest, original or getattr(config, "original_max_position_embeddings", None) or longest)
    return longest


@dataclass(frozen=True, kw_only=True)
class Attention:
    """How the body wants its 4-D masks: additive or bool, one for all layers or one for each type of layer."""

    additive: bool  # eager adds the mask to the scores; sdpa takes True where a key may be seen
    windows: dict[str, int | None]  # layer type -> sliding window in tokens; the key "" = one mask for all layers


def attention(config: Any) -> Attention:
    """The masks that a model of this config takes. Raises TargetError for an attention that takes none."""
    kind = getattr(config, "_attn_implementation", None) or "eager"
    if kind not in ("sdpa", "eager"):
        raise errors.TargetError(
            doing="preparing the key/value cache",
            met=f"the model runs with attention {kind!r}, which does not take a ready mask",
            todo="load it with attn_implementation='sdpa' or 'eager'",
        )
    # Only a family that declares a window has one: others carry whatever stands in their config.json and ignore it.
    declared = "sliding_window" in inspect.signature(type(config).__init__).parameters
    window = getattr(config, "sliding_window", None) if declared else None
    layer_types = getattr(config, "layer_types", None)
    if not layer_types:
        return Attention(additive=kind == "eager", windows={"": window})
    windows = {name: window if name == "sliding_attention" else None for name in sorted(set(layer_types))}
    return Attention(additive=kind == "eager", windows=windows)


def refuse_unserved(config: Any) -> None:
    """Nothing, or a TargetError for a family whose memory is not one key/value pair per layer and token."""
    reason = next((sentence for found, sentence in _objections(config) if found), None)
    if reason:
        raise errors.TargetError(
            doing=f"loading a model of the family {config.model_type!r}",
            met=reason,
            todo="use a decoder-only text model with ordinary attention, such as Llama, Mistral, Phi-3, Qwen3 or Gemma",
        )


def _objections(config: Any) -> Iterator[tuple[bool, str]]:
    yield bool(getattr(config, "is_encoder_decoder", False)), "it is an encoder-decoder"
    text = config.get_text_config(decoder=True)
    yield text is not config, "it is a multi-modal wrapper around a text model"
    odd = sorted(set(getattr(config, "layer_types", None) or ()) - set(MASKED))
    yield bool(odd), f"it has layers of type {', '.join(odd)}"
    shared = getattr(config, "num_kv_shared_layers", None)
    yield bool(shared), f"{shared} of its layers share the keys and values of others"
    yield bool(getattr(config, "kv_lora_rank", None)), "it has multi-head latent attention"
    yield bool(getattr(config, "alibi", False)), "it encodes positions with ALiBi, which needs a padding mask"


def _unserved(module: nn.Module, reason: str) -> errors.TargetError:
    return errors.TargetError(
        doing=f"looking into {type(module).__name__}",
        met=reason,
        todo="use a decoder-only text model with ordinary attention, such as Llama, Mistral, Phi-3, Qwen3 or Gemma",
    )


class _Said:
    """A body's output in which everything but the hidden states reads None."""

    def __init__(self, hidden: Tensor) -> None:
        self.last_hidden_state = hidden

    def __getitem__(self, index: int) -> Tensor | None:
        return self.last_hidden_state if index == 0 else None

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


class _Rows(nn.Module):
    """Some rows of a head."""

    def __init__(self, weight_CD: Tensor, bias_C: Tensor | None) -> None:
        super().__init__()
        self.weight_CD, self.bias_C = weight_CD.detach(), bias_C

    def forward(self, hidden_BMD: Tensor) -> Tensor:
        return nn.functional.linear(hidden_BMD, self.weight_CD, self.bias_C)


class _Echo(nn.Module):
    """Stands in for a body and says what it was told to."""

    def __init__(self, hidden: Tensor) -> None:
        super().__init__()
        self.hidden = hidden

    @property
    def decoder(self) -> _Echo:
        """Itself, for families that reach through their body (OPT)."""
        return self

    def forward(self, *args: Any, **kwargs: Any) -> _Said:
        return _Said(self.hidden)


def apply_head(causal: Any, hidden_BMD: Tensor, ids_C: Tensor | None = None) -> Tensor:
    """Logits [B,M,V] of final-norm hidden states, with every scale and soft-cap that the family applies.

    The causal LM's own forward runs, on a shallow copy of it whose body only repeats `hidden_BMD`. So nothing here
    has to know that Gemma caps, Cohere multiplies and Granite divides. With `ids_C` [B,M,C], of those tokens alone.
    """
    head = causal.get_output_embeddings()
    place = next((name for name, module in causal._modules.items() if module is head), None)
    if ids_C is not None and (place is None or type(head) is not nn.Linear):
        return apply_head(causal, hidden_BMD)[..., ids_C]
    shell = copy.copy(causal)
    shell.__dict__["_modules"] = dict(causal._modules)
    setattr(shell, body_name(causal), _Echo(hidden_BMD))
    if ids_C is not None and place is not None:
        setattr(shell, place, _Rows(head.weight[ids_C], None if head.bias is None else head.bias[ids_C]))
    tokens_BM = torch.zeros(hidden_BMD.shape[:2], dtype=torch.int64, device=hidden_BMD.device)
    return shell(input_ids=tokens_BM, use_cache=False).logits


def check_taps(taps: Sequence[int], num_layers: int) -> tuple[int, ...]:
    """`taps` as a tuple; raises ConfigError for a layer that the target does not have."""
    for tap in taps:
        if tap != FINAL and not 0 <= tap < num_layers:
            raise errors.ConfigError(
                doing="tapping hidden states of the target",
                met=f"layer {tap} of a model with {num_layers} layers",
                todo=f"choose 0..{num_layers - 1}, or {FINAL} for the final-norm output",
            )
    return tuple(taps)


@contextmanager
def listen(layers: nn.ModuleList, taps: Sequence[int]) -> Iterator[dict[int, Tensor]]:
    """A dict that fills with the output of each tapped layer while the body runs; the hooks go at the end."""
    heard: dict[int, Tensor] = {}

    def keeper(tap: int) -> Any:
        def keep(module: nn.Module, inputs: Any, output: Any) -> None:
            heard[tap] = output[0] if isinstance(output, tuple) else output

        return keep

    handles = [layers[tap].register_forward_hook(keeper(tap)) for tap in set(taps) if tap != FINAL]
    try:
        yield heard
    finally:
        for handle in handles:
            handle.remove()


def stack_taps(final_BMD: Tensor, heard: dict[int, Tensor], taps: Sequence[int]) -> Tensor:
    """Hidden states [B,M,L,D] in the order of `taps`."""
    chosen = [final_BMD if tap == FINAL else heard[tap].to(final_BMD.device) for tap in taps]
    if not chosen:
        return final_BMD[:, :, None][:, :, :0]
    return chosen[0].unsqueeze(2) if len(chosen) == 1 else torch.stack(chosen, dim=2)
