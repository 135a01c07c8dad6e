"""What the model lends to a drafter: embedding and head as the model uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from draftune.target.base import TargetParts

if TYPE_CHECKING:
    from draftune.target.target import Target

CHUNK = 4096  # rows made at once


@torch.no_grad()
def lend(target: Target) -> TargetParts:
    """The parts of `target`. They are its own tensors wherever it uses a weight as stored."""
    training = target.model.training
    target.model.eval()  # dropout would be taken for a scale
    try:
        return _lend(target)
    finally:
        target.model.train(training)


def _lend(target: Target) -> TargetParts:
    head, scale = target.causal.get_output_embeddings(), _head_scale(target)
    matrix, bias = _matrix(head), getattr(head, "bias", None)
    return TargetParts(
        shape=target.shape,
        embedding_VD=_embedding(target),
        head_VD=matrix if scale == 1 else matrix * scale,
        head_bias_V=None if bias is None else bias.detach() * scale,
    )


def _head_scale(target: Target) -> float:
    """The constant by which the family multiplies the head's output (Cohere, Granite); 1 where it caps or does not."""
    head = target.causal.get_output_embeddings()
    generator = torch.Generator().manual_seed(0)
    hidden_ND = torch.randn(4, target.shape.hidden_size, generator=generator).to(target.device, target.dtype)
    hidden_ND = hidden_ND * (200 / head(hidden_ND).abs().max())  # large enough for a soft-cap to show
    scale = _ratio(target.logits(hidden_ND), head(hidden_ND))
    return 1.0 if abs(scale - 1) < 1e-2 else scale


def _embedding(target: Target) -> Tensor:
    """[V,D]: what the first decoder layer receives for each token, without learned positions.

    Gemma scales inside the embedding, Granite after it: both are folded in.
    """
    table = target.causal.get_input_embeddings()
    size = table.weight.shape[0]
    sample = torch.linspace(0, size - 1, min(size, 8), device=target.device).long()
    stored, looked_up, received = table.weight[sample], table(sample), _received(target, sample)
    scale = _ratio(received, looked_up)
    if scale == 1 and torch.equal(stored, looked_up):
        return table.weight.detach()
    rows = [table(ids) for ids in torch.arange(size, device=target.device).split(CHUNK)]
    return torch.cat(rows).detach() * scale


def _received(target: Target, tokens_N: Tensor) -> Tensor:
    seen: list[Tensor] = []

    def keep(module: nn.Module, inputs: Any, settings: dict[str, Any]) -> None:
        seen.append(inputs[0] if inputs else settings["hidden_states"])

    handle = target.layers[0].register_forward_pre_hook(keep, with_kwargs=True)
    try:
        target.body(input_ids=tokens_N[:, None], use_cache=False)
    finally:
        handle.remove()
    return seen[0][:, 0]


def _ratio(changed_ND: Tensor, plain_ND: Tensor) -> float:
    """The constant between two tensors; 1 where there is none."""
    changed_ND, plain_ND = changed_ND.double().cpu(), plain_ND.double().cpu()
    ratio = (changed_ND / plain_ND).nanmedian().item()
    proportional = torch.allclose(changed_ND, plain_ND * ratio, rtol=2e-2)
    return ratio if proportional else 1.0


def _matrix(head: Any) -> Tensor:
    """[V,D] of the head; where an adapter changes it, what it does to the unit vectors."""
    if type(head) is nn.Linear:
        return head.weight.detach()
    units = torch.eye(head.weight.shape[1], dtype=head.weight.dtype, device=head.weight.device)
    columns = head(units)
    bias = getattr(head, "bias", None)
    return (columns if bias is None else columns - bias).T.contiguous().detach()
