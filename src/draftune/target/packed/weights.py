"""The weights of a Llama-shaped model as the kernel reads them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import c_double, c_int64, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from draftune.kernels import DTYPES, LANES, pack, padded
from draftune.target import anatomy

if TYPE_CHECKING:
    from draftune.target.target import Target

FAMILIES = frozenset({"llama", "mistral", "qwen2", "qwen3", "phi3"})


class CLayer(ctypes.Structure):
    """`Layer` of handed.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("norm_before", "qkv", "qkv_bias", "query_norm", "key_norm", "out")),
        *((name, c_void_p) for name in ("norm_between", "gate_up", "down")),
        ("window", c_int64),
    ]


class CModel(ctypes.Structure):
    """`Model` of handed.h."""

    _fields_ = [
        *((name, c_int64) for name in ("num_layers", "width", "heads", "groups", "head_width", "rotary", "inner")),
        ("vocabulary", c_int64),
        ("epsilon", c_double),
        ("scale", c_double),
        ("layers", ctypes.POINTER(CLayer)),
        *((name, c_void_p) for name in ("embedding", "norm", "head", "head_bias")),
    ]


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A model that the kernel can read, with all that its pointers point at."""

    kernel: ctypes.CDLL
    model: CModel
    dtype: torch.dtype
    num_embeddings: int  # tokens that can be read
    rotary: Any  # the model's own module from positions to cosine and sine
    held: list[Any]

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
    config, held = target.causal.config, []
    packer = _Packer(held)
    layers = (CLayer * len(target.layers))()
    for number, layer in enumerate(target.layers):
        layers[number] = _layer(layer, packer)
        if release:
            _empty(layer)
    for layer, window in zip(layers, _windows(target), strict=True):
        layer.window = window or 0
    body: Any = target.body
    first: Any = target.layers[0]
    head, head_width = target.causal.get_output_embeddings(), _head_width(target)
    cosine_1TR, _ = body.rotary_emb(torch.zeros(1, 1, config.hidden_size), torch.zeros(1, 1, dtype=torch.int64))
    model = CModel(
        num_layers=len(layers),
        width=config.hidden_size,
        heads=config.num_attention_heads,
        groups=config.num_key_value_heads,
        head_width=head_width,
        rotary=cosine_1TR.shape[-1],
        inner=config.intermediate_size,
        vocabulary=head.weight.shape[0],
        epsilon=config.rms_norm_eps,
        scale=getattr(first.self_attn, "scaling", head_width**-0.5),
        layers=layers,
        embedding=packer.as_it_is(target.causal.get_input_embeddings().weight),
        norm=packer.wide(body.norm.weight),
        head=packer.matrix(head.weight),
        head_bias=packer.wide(head.bias),
    )
    held.append(layers)
    return Packed(
        kernel=kernel,
        model=model,
        dtype=target.dtype,
        num_embeddings=target.causal.get_input_embeddings().weight.shape[0],
        rotary=body.rotary_emb,
        held=held,
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


def _layer(layer: Any, packer: _Packer) -> CLayer:
    attention, mlp = layer.self_attn, layer.mlp
    fused = hasattr(attention, "qkv_proj")
    parts = [attention.qkv_proj] if fused else [attention.q_proj, attention.k_proj, attention.v_proj]
    biases = [part.bias for part in parts if part.bias is not None]
    gate_ID, up_ID = mlp.gate_up_proj.weight.chunk(2) if fused else (mlp.gate_proj.weight, mlp.up_proj.weight)
    in_turn = torch.stack([gate_ID.unflatten(0, (-1, LANES)), up_ID.unflatten(0, (-1, LANES))], dim=1).flatten(0, 2)
    norms = [getattr(getattr(attention, name, None), "weight", None) for name in ("q_norm", "k_norm")]
    return CLayer(
        norm_before=packer.wide(layer.input_layernorm.weight),
        qkv=packer.matrix(torch.cat([part.weight for part in parts])),
        qkv_bias=packer.wide(torch.cat(biases) if biases else None),
        query_norm=packer.wide(norms[0]),
        key_norm=packer.wide(norms[1]),
        out=packer.matrix(attention.o_proj.weight),
        norm_between=packer.wide(layer.post_attention_layernorm.weight),
        gate_up=packer.matrix(in_turn),
        down=packer.matrix(mlp.down_proj.weight),
    )


class _Packer:
    """Makes what the kernel points at, and keeps it."""

    def __init__(self, held: list[Any]) -> None:
        self.held = held

    def matrix(self, weight_ND: Tensor) -> int:
        """The address of a packed matrix."""
        self.held.append(pack(weight_ND))
        return self.held[-1].data_ptr()

    def wide(self, vector_N: Tensor | None) -> int | None:
        """The address of a vector in fp32, None where there is none."""
        if vector_N is None:
            return None
        self.held.append(padded(vector_N))
        return self.held[-1].data_ptr()

    def as_it_is(self, weight: Tensor) -> int:
        """The address of a tensor that the model itself holds."""
        self.held.append(weight)
        return weight.detach().data_ptr()
