"""Modules of torch with their linear layers packed."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import Tensor, nn

from draftune.kernels.products import LANES, Matrix

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class PackedLinear(nn.Module):
    """Stands where an nn.Linear stood; takes and gives [M,D] in fp32. It has nothing to train."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.matrix = Matrix(linear.weight, linear.bias)

    def forward(self, x_MD: Tensor) -> Tensor:
        return self.matrix(x_MD)


def with_packed_linears(module: ModuleT) -> ModuleT:
    """A copy of the module whose linear layers are packed, those whose width the kernel can read."""
    twin = copy.deepcopy(module)
    for parent in list(twin.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Linear and child.in_features % LANES == 0:
                setattr(parent, name, PackedLinear(child))
    return twin
