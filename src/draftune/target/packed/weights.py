"""The weights of a Llama-shaped model as the kernel reads them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from ctypes import c_double, c_int64, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from draftune.kernels import DTYPES, LANES, pack, padded
from draftune.target import anatomy
from draftune.target.packed.rotary import Rotary, rotary_of

if TYPE_CHECKING:
    from draftune.target.target import Target

FAMILIES = frozenset({"llama", "mistral", "qwen2", "qwen3", "phi3"})


OF_LAYER = (
    *("norm_before", "qkv", "qkv_bias", "query_norm", "key_norm", "out"),
    *("norm_between", "gate_up", "down"),
)
SIZES = ("num_layers", "width", "heads", "groups", "head_width", "rotary", "inner", "vocabulary")
OF_MODEL = (*SIZES, "epsilon", "scale")
ONCE = ("embedding", "norm", "head", "head_bias")


class CLayer(ctypes.Structure):
    """`Layer` of handed.h."""

    _fields_ = [*((name, c_void_p) for name in OF_LAYER), ("window", c_int64)]


class CModel(ctypes.Structure):
    """`Model` of handed.h."""

    _fields_ = [
        *((name, c_int64) for name in SIZES),
        *((name, c_double) for name in ("epsilon", "scale")),
        ("layers", ctypes.POINTER(CLayer)),
        *((name, c_void_p) for name in ONCE),
    ]


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What the kernel must know of a model beside its tensors."""

    num_layers: int
    width: int
    heads: int
    groups: int
    head_width: int
    rotary: int  # entries of a head that are turned
    inner: int
    vocabulary: int  # rows of the head
    num_embeddings: int  # tokens that can be read
    epsilon: float
    scale: float
    windows: tuple[int, ...]  # of each layer; 0 = it sees everything


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A model that the kernel can read."""

    kernel: ctypes.CDLL
    numbers: Numbers
    tensors: Mapping[str, Tensor]  # "embedding", "head", "3.qkv": those of `CModel`, and of `CLayer` with their layer
    rotary: Rotary
    model: CModel  # points at the tensors

    @property
    def dtype(self) -> torch.dtype:
        return self.tensors["embedding"].dtype

    @property
    def suffix(self) -> str:
        """Of the kernel's functions for this precision."""
        return DTYPES[self.dtype]


def objection(target: Target) -> str | None:
    """Why the kernel does not serve this target; None where it does, as far as can be seen from outside."""
    return next((reason for found, reason in _objections(target) if found), None)


def _objections(target: Target) -> Iterator[tuple[bool, str]]:
    config = target.causal.config
    yield target.device.type != "cpu", f"it lies on {target.device.type}"
    yield target.dtype not in DTYPES, f"it is in {str(target.dtype).removeprefix('torch.')}"
    yield target.adapted, "its adapter is not folded into the weights"
    yield config.model_type not in FAMILIES, f"its family is {config.model_type!r}"
    yield getattr(config, "hidden_act", "silu") != "silu", f"its activation is {config.hidden_act!r}"
    layer: Any = target.layers[0]
    attention, mlp = layer.self_attn, layer.mlp
    yield getattr(attention.o_proj, "bias", None) is not None, "its attention has an output bias"
    yield any(getattr(one, "bias", None) is not None for one in mlp.children()), "its feed-forward blocks have biases"
    sizes = {"width": config.hidden_size, "head width": _head_width(target), "inner width": config.intermediate_size}
    for name, size in sizes.items():
        yield size % LANES != 0, f"its {name} {size} is no multiple of {LANES}"
    linear = [one for one in target.causal.modules() if hasattr(one, "weight") and one.weight.dim() == 2]
    odd = next((one for one in linear if one.weight.dtype != target.dtype), None)
    yield odd is not None, "its weights are of several precisions"
    plain = all(type(one) in (torch.nn.Linear, torch.nn.Embedding) for one in linear)
    yield not plain, "its weights are quantized"


def _head_width(target: Target) -> int:
    config = target.causal.config
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def make(target: Target, kernel: ctypes.CDLL, *, release: bool = False) -> Packed:
    """Pack everything. The model itself stays as it is; with `release`, its layers lose their matrices one by one."""
    tensors: dict[str, Tensor] = {}
    for number, layer in enumerate(target.layers):
        tensors |= {f"{number}.{name}": one for name, one in _layer(layer).items()}
        if release:
            _empty(layer)
    body: Any = target.body
    head = target.causal.get_output_embeddings()
    tensors |= {
        "embedding": target.causal.get_input_embeddings().weight.detach(),
        "norm": padded(body.norm.weight),
        "head": pack(head.weight),
    }
    if head.bias is not None:
        tensors["head_bias"] = padded(head.bias)
    return link(kernel, _numbers(target), tensors, rotary_of(target))


def link(kernel: ctypes.CDLL, numbers: Numbers, tensors: Mapping[str, Tensor], rotary: Rotary) -> Packed:
    """The model made of these tensors, which are kept and not copied."""
    places = {name: one.data_ptr() for name, one in tensors.items()}
    layers = (CLayer * numbers.num_layers)()
    for number, window in enumerate(numbers.windows):
        layers[number] = CLayer(window=window, **{name: places.get(f"{number}.{name}") for name in OF_LAYER})
    sizes = {name: getattr(numbers, name) for name in OF_MODEL}
    model = CModel(layers=layers, **sizes, **{name: places.get(name) for name in ONCE})
    return Packed(kernel=kernel, numbers=numbers, tensors=tensors, rotary=rotary, model=model)


def _numbers(target: Target) -> Numbers:
    config, first, head_width = target.causal.config, target.layers[0], _head_width(target)
    cosine_PR, _ = rotary_of(target)(1)
    return Numbers(
        num_layers=len(target.layers),
        width=config.hidden_size,
        heads=config.num_attention_heads,
        groups=config.num_key_value_heads,
        head_width=head_width,
        rotary=2 * cosine_PR.shape[1],
        inner=config.intermediate_size,
        vocabulary=target.causal.get_output_embeddings().weight.shape[0],
        num_embeddings=target.causal.get_input_embeddings().weight.shape[0],
        epsilon=config.rms_norm_eps,
        scale=getattr(first.self_attn, "scaling", head_width**-0.5),
        windows=tuple(window or 0 for window in _windows(target)),
    )


def give_up(target: Target) -> None:
    """Nothing; the matrices of a model's layers are gone, embedding and head stay."""
    for layer in target.layers:
        _empty(layer)


def _empty(layer: torch.nn.Module) -> None:
    for weight in layer.parameters():
        if weight.dim() == 2:
            weight.data = weight.data.new_empty(0)


def _windows(target: Target) -> list[int | None]:
    windows, types = anatomy.attention(target.causal.config).windows, getattr(target.causal.config, "layer_types", None)
    return [windows[kind] for kind in types or [""] * len(target.layers)]


def _layer(layer: Any) -> dict[str, Tensor]:
    """The tensors of a decoder layer under their names in `CLayer`."""
    attention, mlp = layer.self_attn, layer.mlp
    fused = hasattr(attention, "qkv_proj")
    parts = [attention.qkv_proj] if fused else [attention.q_proj, attention.k_proj, attention.v_proj]
    biases = [part.bias for part in parts if part.bias is not None]
    gate_ID, up_ID = mlp.gate_up_proj.weight.chunk(2) if fused else (mlp.gate_proj.weight, mlp.up_proj.weight)
    in_turn = torch.stack([gate_ID.unflatten(0, (-1, LANES)), up_ID.unflatten(0, (-1, LANES))], dim=1).flatten(0, 2)
    vectors = {
        "norm_before": layer.input_layernorm.weight,
        "qkv_bias": torch.cat(biases) if biases else None,
        "query_norm": getattr(getattr(attention, "q_norm", None), "weight", None),
        "key_norm": getattr(getattr(attention, "k_norm", None), "weight", None),
        "norm_between": layer.post_attention_layernorm.weight,
    }
    return {name: padded(one) for name, one in vectors.items() if one is not None} | {
        "qkv": pack(torch.cat([part.weight for part in parts])),
        "out": pack(attention.o_proj.weight),
        "gate_up": pack(in_turn),
        "down": pack(mlp.down_proj.weight),
    }
