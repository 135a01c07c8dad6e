"""Modules of torch with their linear layers packed."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import Tensor, nn

from draftune.kernels.products import LANES, Matrix

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class PackedLinear(nn.Module):
    """Stands where an nn.Linear stood; takes any float and gives fp32, for decoding alone."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias  # for those who read them
        self.matrix = Matrix(linear.weight, linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """[..,D] to [..,N]."""
        return self.matrix(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], -1)


def with_packed_linears(module: ModuleT) -> ModuleT:
    """A copy of the module whose linear layers are packed, those whose width the kernel can read."""
    twin = copy.deepcopy(module)
    for parent in list(twin.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Linear and child.in_features % LANES == 0:
                setattr(parent, name, PackedLinear(child))
    return twin
