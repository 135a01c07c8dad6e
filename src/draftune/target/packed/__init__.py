"""A fast twin of the general runner for the CPU: weights packed once, one compiled kernel for a whole forward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from draftune import errors
from draftune.kernels import build
from draftune.target.packed import weights
from draftune.target.packed.runner import PackedRunner
from draftune.target.packed.weights import Packed

__all__ = ["Packed", "PackedRunner", "pack"]

if TYPE_CHECKING:
    from draftune.target.target import Target


def pack(target: Target) -> Packed:
    """The target's weights as the kernel reads them, tried against the general runner.

    Raises TargetError, which says why, for a model, device or precision that the kernel does not serve, and where no
    compiler can build it.
    """
    reason = weights.objection(target)
    if reason is not None:
        raise errors.TargetError(
            doing=f"packing {target.name!r}", met=reason, todo="use the general runner, which serves every family"
        )
    return weights.make(target, build.kernel())
