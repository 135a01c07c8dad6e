"""The large model with its tokenizer: what it computes, what it lends, and what identifies it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from draftune.target import anatomy, fingerprint, parts, proof
from draftune.target.base import FINAL, TargetParts, TargetShape
from draftune.target.runner import HuggingFaceRunner
from draftune.types import Features


class Target:
    """A causal LM of transformers, bare or with a peft adapter, and its tokenizer."""

    def __init__(self, model: Any, tokenizer: Any, name: str, *, known_as: str | None = None) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self._known_as = known_as  # fingerprint of the unmerged target whose weights were folded into this one
        self._tried = False
        anatomy.refuse_unserved(self.causal.config)

    @property
    def causal(self) -> Any:
        """The causal LM itself, under the adapter if there is one."""
        return self.model.get_base_model() if hasattr(self.model, "peft_config") else self.model

    @property
    def body(self) -> nn.Module:
        """The module from token ids to final-norm hidden states."""
        return getattr(self.causal, anatomy.body_name(self.causal))

    @cached_property
    def layers(self) -> nn.ModuleList:
        """The decoder layers."""
        return anatomy.decoder_layers(self.body, self.causal.config.num_hidden_layers)

    @property
    def device(self) -> torch.device:
        return self.causal.get_input_embeddings().weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.causal.dtype

    @cached_property
    def shape(self) -> TargetShape:
        """The numbers by which a drafter and this target can be told to fit."""
        config = self.causal.config
        return TargetShape(
            vocab_size=self.causal.get_output_embeddings().weight.shape[0],
            hidden_size=config.hidden_size,
            num_layers=config.num_hidden_layers,
            max_length=anatomy.max_length(config),
        )

    def parts(self) -> TargetParts:
        """Embedding and head as the model uses them, shared with it where it uses them as stored."""
        return parts.lend(self)

    def runner(self) -> HuggingFaceRunner:
        """A runner over this model, with a cache of its own. An unproven family is put on a short trial first."""
        if not self._tried and self.causal.config.model_type not in proof.PROVEN:
            proof.check(self, HuggingFaceRunner(self))
        self._tried = True
        return HuggingFaceRunner(self)

    def fingerprint(self) -> str:
        """A hash that tells this base model with this adapter from any other, whatever the precision."""
        return self._known_as or fingerprint.of(self.model)

    def hidden(
        self, tokens_BT: Tensor, lengths_B: Tensor, taps: Sequence[int] = (FINAL,), ids: Sequence[str] = ()
    ) -> Features:
        """Hidden states [B,T,L,D] of right-padded rows: one teacher-forced forward, differentiable, without a cache.

        Attention is causal, so the padding after a row's `lengths_B` tokens changes nothing before it, and no padding
        mask is needed; what stands at the padding means nothing.
        """
        if tokens_BT.shape[0] != lengths_B.numel():
            raise ValueError(f"{tokens_BT.shape[0]} rows with {lengths_B.numel()} lengths")
        taps = anatomy.check_taps(taps, self.shape.num_layers)
        with anatomy.listen(self.layers, taps) as heard:
            final_BTD = self.body(input_ids=tokens_BT.to(self.device), use_cache=False).last_hidden_state
        names = tuple(ids) or tuple(map(str, range(tokens_BT.shape[0])))
        return Features(ids=names, hidden=anatomy.stack_taps(final_BTD, heard, taps), taps=taps)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [...,V] of final-norm hidden states [...,D], with the family's scales and soft-caps."""
        flat_1ND = hidden.reshape(1, -1, hidden.shape[-1])
        return anatomy.apply_head(self.causal, flat_1ND).reshape(*hidden.shape[:-1], -1)
