"""The large model with its tokenizer: what it computes, what it lends, and what identifies it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from draftune import errors
from draftune.target import anatomy, fingerprint, parts, proof
from draftune.target.base import FINAL, TargetParts, TargetShape
from draftune.target.blocks import BlockRunner
from draftune.target.graphs import GraphRunner
from draftune.target.packed import Packed, PackedRunner, give_up, pack
from draftune.target.runner import HuggingFaceRunner
from draftune.types import Features, RunnerKind


class Target:
    """A causal LM of transformers, bare or with a peft adapter, and its tokenizer."""

    def __init__(self, model: Any, tokenizer: Any, name: str, *, known_as: str | None = None) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self._known_as = known_as  # fingerprint of the unmerged target whose weights were folded into this one
        self._tried = False
        self._packed: tuple[int, Packed] | None = None  # and the state of the weights that it was made of
        anatomy.refuse_unserved(self.causal.config)

    @property
    def adapted(self) -> bool:
        """Whether a peft adapter is attached, not folded in."""
        return hasattr(self.model, "peft_config")

    @property
    def causal(self) -> Any:
        """The causal LM itself, under the adapter if there is one."""
        return self.model.get_base_model() if self.adapted else self.model

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

    def runner(self, kind: RunnerKind = "auto", *, release: bool = False) -> BlockRunner:
        """A runner over this model, with a memory of its own.

        "packed" is the fast one for Llama-shaped models on a CPU, "graphs" replays CUDA graphs, "general" serves every
        family everywhere; "auto" is the fastest that can be had. Raises TargetError where "packed" is asked for and
        cannot be had. A family that nobody has proven is put on a short trial first, and so are packed weights. With
        `release`, packed weights are not held twice: the model gives up its own, and only packed runners can be had
        from then on.
        """
        if kind in ("auto", "packed"):
            try:
                return PackedRunner(self.shape, self._pack(release=release))
            except errors.TargetError as error:
                if kind == "packed" or self.released:
                    raise
                _tell(self, error)
        if self.released:
            met, todo = "its weights were given up to the packed one", "ask for the packed runner or load it again"
            raise errors.TargetError(doing=f"opening the {kind} runner of {self.name!r}", met=met, todo=todo)
        if not self._tried and self.causal.config.model_type not in proof.PROVEN:
            proof.check(proof.prepare(self), HuggingFaceRunner(self))
        self._tried = True
        graphs = kind == "graphs" or (kind == "auto" and self.device.type == "cuda")
        return GraphRunner(self) if graphs else HuggingFaceRunner(self)

    @property
    def released(self) -> bool:
        """Whether the model gave up weights to a packed runner."""
        return any(weight.numel() == 0 for weight in self.causal.parameters())

    @property
    def packed(self) -> Packed | None:
        """The weights as a packed runner reads them; None before one was opened."""
        return self._packed[1] if self._packed else None

    def _pack(self, *, release: bool) -> Packed:
        if release:
            self._known_as = self.fingerprint()  # of weights that will be gone
        state = sum(weight._version for weight in self.causal.parameters())  # counts changes in place
        if self._packed is None or self._packed[0] != state:
            self._packed = (state, pack(self, release=release))
        elif release:
            give_up(self)
        return self._packed[1]

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

    def logits(self, hidden: Tensor, ids_C: Tensor | None = None) -> Tensor:
        """Logits [...,V] of final-norm hidden states [...,D], with the family's scales and soft-caps.

        With `ids_C`, [...,C] of those tokens alone.
        """
        flat_1ND = hidden.reshape(1, -1, hidden.shape[-1])
        return anatomy.apply_head(self.causal, flat_1ND, ids_C).reshape(*hidden.shape[:-1], -1)


def _tell(target: Target, error: errors.TargetError) -> None:
    """Say, once in a process, why a model that a CPU could read fast is not."""
    expected = target.device.type == "cpu" and target.dtype in (torch.float32, torch.bfloat16)
    if expected and not target.adapted:
        warnings.warn(f"decoding with the general runner: {error.met}", RuntimeWarning, stacklevel=3)
