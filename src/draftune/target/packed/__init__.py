"""A fast twin of the general runner for the CPU: weights packed once, one compiled kernel for a whole forward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from draftune import errors
from draftune.kernels import build
from draftune.target import proof
from draftune.target.packed import weights
from draftune.target.packed.runner import PackedRunner
from draftune.target.packed.weights import Packed, give_up

__all__ = ["Packed", "PackedRunner", "give_up", "pack"]

if TYPE_CHECKING:
    from draftune.target.target import Target


def pack(target: Target, *, release: bool = False) -> Packed:
    """The target's weights as the kernel reads them, tried against the model's own forward.

    With `release` the model gives its weights up layer by layer, so that they are never held twice. Raises
    TargetError, which says why, for a model, device or precision that the kernel does not serve, and where no compiler
    can build it.
    """
    reason = weights.objection(target)
    if reason is not None:
        raise errors.TargetError(
            doing=f"packing {target.name!r}", met=reason, todo="use the general runner, which serves every family"
        )
    kernel, trial = build.kernel(), proof.prepare(target)
    packed = weights.make(target, kernel, release=release)
    proof.check(trial, PackedRunner(target.shape, packed))
    return packed
