"""Drafters on packed weights guess what they guess without, up to the rounding of bfloat16."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import nn

from draftune import config as configs
from draftune import kernels
from draftune.drafters.base import Greedy, Prefix
from draftune.drafters.compose import ComposedDrafter
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.kernels import build
from draftune.target.tiny import tiny
from draftune.types import Features

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in build.COMPILERS), reason="no C++ compiler is here"
)
NAMES = [name for name in DRAFTERS.entries() if name != "lookup"]
MIXED = [
    "semiar-gru head.kind=target",
    "semiar-lstm context.kind=residual",
    "medusa head.kind=mlp",
    "semiar-state head.kind=mlp",
]


def built(name: str, dtype: str = "float32") -> ComposedDrafter:
    torch.manual_seed(0)
    target, (name, *changes) = tiny(dtype=dtype), name.split()
    config = configs.override(DRAFTERS.load(name)(), changes, doing="mixing parts")
    drafter = config.build(target.parts(), Vocabulary(torch.arange(3, 40), 64)).eval()
    for parameter in drafter.parameters():
        nn.init.normal_(parameter, std=0.2)
    return drafter


def begun(drafter: ComposedDrafter, num_rows: int, first: int = 0) -> Prefix:
    """What is verified of some of 20 rows."""
    dice = torch.Generator().manual_seed(1)
    hidden = torch.randn(20, 4, len(drafter.taps), 32, generator=dice)[first : first + num_rows]
    return Prefix(
        tokens=torch.zeros(num_rows, 4, dtype=torch.int64),
        lengths=torch.full((num_rows,), 4),
        features=Features(ids=("",) * num_rows, hidden=hidden, taps=drafter.taps),
        anchor=torch.randint(3, 40, (20,), generator=dice)[first : first + num_rows],
    )


def guessed(drafter: ComposedDrafter, num_rows: int, first: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens [B,K] and logits [B,K,V'] of a round of those rows, in which a fixed token is always drawn."""
    prefix, heard = begun(drafter, num_rows, first), []

    def sampler(logits_BV, drafted_BK, ids_V):
        heard.append(logits_BV)
        return torch.full((num_rows,), 3 + drafted_BK.shape[1]), None

    sampler.greedy = False
    draft = drafter.propose(drafter.begin(prefix), torch.full((num_rows,), 4), sampler)
    return draft.tokens, torch.stack(heard, dim=1)


@pytest.mark.parametrize("num_rows", [1, 3, 17])
@pytest.mark.parametrize("name", [*NAMES, *MIXED])
@torch.inference_mode()
def test_a_ready_drafter_guesses_the_same(name: str, num_rows: int) -> None:
    drafter = built(name)
    ready = drafter.ready()
    assert ready is not drafter
    (tokens, wanted), (same, met) = guessed(drafter, num_rows), guessed(ready, num_rows)
    assert torch.equal(tokens, same)
    assert (met - wanted).abs().mean() < 0.02 * wanted.abs().mean()
    assert ready.max_drafts == drafter.max_drafts


class Watched(Greedy):
    """Takes the largest logit, and is to be asked for every draft."""

    greedy = False


@pytest.mark.parametrize("num_rows", [1, 5])
@pytest.mark.parametrize("name", ["semiar-rnn", "semiar-lstm", "semiar-gru", "semiar-fused"])
@torch.inference_mode()
def test_a_greedy_round_in_one_call_drafts_what_single_steps_draft(name: str, num_rows: int) -> None:
    ready = built(name).ready()
    prefix, budget_B = begun(ready, num_rows), torch.arange(8, 8 - num_rows, -1)
    drafts = [ready.propose(ready.begin(prefix), budget_B, sampler) for sampler in (Greedy(), Watched())]
    assert torch.equal(drafts[0].tokens, drafts[1].tokens)
    assert torch.equal(drafts[0].num_drafted, budget_B)
    assert num_rows == 1 or len(drafts[0].tokens.unique()) > 1


@torch.inference_mode()
def test_a_row_does_not_depend_on_its_neighbours() -> None:
    ready = built("semiar-gru").ready()
    together = guessed(ready, 15)[1]
    assert torch.equal(together[4:5], guessed(ready, 1, first=4)[1])
    assert torch.equal(together[2:9], guessed(ready, 7, first=2)[1])


def test_double_precision_stays_as_it_is() -> None:
    drafter = built("semiar-gru", "float64")
    assert drafter.ready() is drafter


@pytest.mark.parametrize(("rows", "columns"), [(1, 16), (5, 37), (13, 96)])
def test_a_matrix_multiplies(rows: int, columns: int) -> None:
    linear, x = nn.Linear(48, columns), torch.randn(rows, 48)
    added = torch.randn(rows, columns)
    matrix = kernels.Matrix(linear.weight, linear.bias)
    with torch.no_grad():
        torch.testing.assert_close(matrix(x), linear(x), rtol=0.02, atol=0.02)
        wanted = nn.functional.silu(linear(x) + added)
    torch.testing.assert_close(matrix(x, add_MN=added, silu=True), wanted, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_are_looked_up_normalized(dtype: torch.dtype) -> None:
    table, tokens = torch.randn(20, 48).to(dtype), torch.tensor([3, 19, 0])
    wanted = nn.functional.rms_norm(table[tokens].float(), (48,), eps=1e-6)
    torch.testing.assert_close(kernels.NormalizedRows(table, 1e-6)(tokens), wanted)


@pytest.mark.parametrize("width", [1, 15, 16, 50, 1023, 1024, 1057, 3000])
def test_the_first_of_the_largest(width: int) -> None:
    x = torch.randint(-3, 3, (2, 7, width)).float()
    wanted = torch.tensor([[row.tolist().index(max(row.tolist())) for row in part] for part in x])
    assert torch.equal(kernels.largest(x), wanted)
    x[0, 0] = float("-inf")
    assert kernels.largest(x)[0, 0] == 0


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@torch.no_grad()
def test_cells_are_those_of_torch(cell: str) -> None:
    module = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}[cell](32, 48)
    x, hidden, memory = torch.randn(5, 32), torch.randn(5, 48), torch.randn(5, 48)
    from_x, from_h = x @ module.weight_ih.T + module.bias_ih, hidden @ module.weight_hh.T + module.bias_hh
    if cell == "lstm":
        wanted_hidden, wanted_memory = module(x, (hidden, memory))
        found_memory, found = kernels.lstm_cell(from_x, from_h, memory)
        torch.testing.assert_close(found_memory, wanted_memory)
    else:
        wanted_hidden = module(x, hidden)
        found = kernels.gru_cell(from_x, from_h, hidden) if cell == "gru" else kernels.rnn_cell(from_x, from_h)
    torch.testing.assert_close(found, wanted_hidden)


class Odd(nn.Module):
    """A part of somebody else's: three dimensions, half precision, and a look at the weights themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(32, 8)

    def forward(self, x):
        return self.inner(x) + self.inner.weight.sum()


@torch.no_grad()
def test_linear_layers_of_any_part_are_packed() -> None:
    module, x = Odd(), torch.randn(2, 3, 32)
    packed = kernels.with_packed_linears(module)
    torch.testing.assert_close(packed(x), module(x), rtol=0.02, atol=0.02)
    torch.testing.assert_close(packed(x.bfloat16()), module(x), rtol=0.05, atol=0.05)
    with pytest.raises(ValueError, match=r"\(3, 16\) where \[rows, 32\] is read"):
        kernels.Matrix(module.inner.weight)(torch.randn(3, 16))
