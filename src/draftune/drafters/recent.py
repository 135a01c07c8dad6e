"""Recent-token models: tiny language models over the anchor and the tokens drafted so far.

Each has two faces that are tested equal: `start` and `step` for drafting, `unroll` for training on all windows at
once. `start` gets the context of the first offset; `step` reads one token's embedding a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from draftune import config as configs
from draftune import kernels
from draftune.target.base import TargetShape

EPSILON = 1e-6
Cell = Literal["rnn", "gru", "lstm"]


def normalize(x: Tensor) -> Tensor:
    """x with root-mean-square 1 over its last dimension, computed in fp32 or wider; targets differ in scale."""
    return F.rms_norm(x, x.shape[-1:], eps=EPSILON)


class Recent(nn.Module):
    """start(context [B,D]) -> state; step(state, x [B,E]) -> state, summary [B,width]; unroll -> [N,K,width]."""

    width: int = 0  # of a summary; 0 = recent tokens are ignored
    max_drafts: int | None = None  # the largest K it can serve; None means any

    def start(self, context_BD: Tensor) -> Any:
        raise NotImplementedError

    def step(self, state: Any, x_BE: Tensor) -> tuple[Any, Tensor]:
        raise NotImplementedError

    def unroll(self, context_ND: Tensor, x_NKE: Tensor) -> Tensor:
        """Summaries after 1, 2, .. K tokens. The obvious way; parts with a faster one override it."""
        state, summaries = self.start(context_ND), []
        for x_NE in x_NKE.unbind(1):
            state, summary_ND = self.step(state, x_NE)
            summaries.append(summary_ND)
        return torch.stack(summaries, dim=1)

    def packed(self) -> Recent:
        """A twin for decoding on a CPU; parts with a faster one than packed linear layers override it."""
        return kernels.with_packed_linears(self)


class Nothing(Recent):
    """No recent tokens: every draft is a guess from the context alone, as in Medusa."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        pass

    def __init__(self, config: Config, shape: TargetShape) -> None:
        super().__init__()

    def start(self, context_BD: Tensor) -> None:
        return None

    def step(self, state: None, x_BE: Tensor) -> tuple[None, Tensor]:
        return None, x_BE[:, :0]


class Recurrent(Recent):
    """RNN, GRU or LSTM that starts from zero at each round; its summary is its last hidden state."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        cell: Cell = "lstm"
        width: int = 0  # 0 = the target's hidden size

        def __post_init__(self) -> None:
            configs.at_least(self, doing="building a recurrent drafter", width=0)

    def __init__(self, config: Config, shape: TargetShape) -> None:
        super().__init__()
        self.width = config.width or shape.hidden_size
        self.cell: Cell = config.cell
        layer = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[config.cell]
        self.layer = layer(shape.hidden_size, self.width, batch_first=True)
        if config.cell == "lstm":
            with torch.no_grad():  # remember by default
                self.layer.bias_ih_l0[self.width : 2 * self.width].fill_(1.0)

    def start(self, context_BD: Tensor) -> tuple[Tensor, Tensor]:
        zeros = context_BD.new_zeros(context_BD.shape[0], self.width)
        return zeros, zeros

    def step(self, state: tuple[Tensor, Tensor], x_BE: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        memory, hidden = state
        layer = self.layer
        from_x = F.linear(x_BE, layer.weight_ih_l0, layer.bias_ih_l0)  # type: ignore[arg-type]
        from_h = F.linear(hidden, layer.weight_hh_l0, layer.bias_hh_l0)  # type: ignore[arg-type]
        memory, hidden = _CELLS[self.cell](from_x, from_h, memory, hidden)
        return (memory, hidden), hidden

    def unroll(self, context_ND: Tensor, x_NKE: Tensor) -> Tensor:
        return self.layer(x_NKE)[0]

    def packed(self) -> Recent:
        return self if self.width % kernels.LANES else _PackedRecurrent(self)


class _PackedRecurrent(Recent):
    """Two packed products and one fused cell a step."""

    def __init__(self, recurrent: Recurrent) -> None:
        super().__init__()
        layer = recurrent.layer
        self.width, self.cell = recurrent.width, recurrent.cell
        self.from_x = kernels.Matrix(layer.weight_ih_l0, layer.bias_ih_l0)  # type: ignore[arg-type]
        self.from_h = kernels.Matrix(layer.weight_hh_l0, layer.bias_hh_l0)  # type: ignore[arg-type]

    start = Recurrent.start

    def step(self, state: tuple[Tensor, Tensor], x_BE: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        memory, hidden = state
        from_x, from_h = self.from_x(x_BE), self.from_h(hidden)
        if self.cell == "lstm":
            memory, hidden = kernels.lstm_cell(from_x, from_h, memory)
        else:
            hidden = (
                kernels.gru_cell(from_x, from_h, hidden) if self.cell == "gru" else kernels.rnn_cell(from_x, from_h)
            )
        return (memory, hidden), hidden


def _rnn(from_x: Tensor, from_h: Tensor, memory: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    return memory, torch.tanh(from_x + from_h)


def _gru(from_x: Tensor, from_h: Tensor, memory: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    reset_x, update_x, new_x = from_x.chunk(3, dim=-1)
    reset_h, update_h, new_h = from_h.chunk(3, dim=-1)
    update = torch.sigmoid(update_x + update_h)
    new = torch.tanh(new_x + torch.sigmoid(reset_x + reset_h) * new_h)
    return memory, new + update * (hidden - new)


def _lstm(from_x: Tensor, from_h: Tensor, memory: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    keep_in, forget, new, out = (from_x + from_h).chunk(4, dim=-1)
    memory = torch.sigmoid(forget) * memory + torch.sigmoid(keep_in) * torch.tanh(new)
    return memory, torch.sigmoid(out) * torch.tanh(memory)


_CELLS = {"rnn": _rnn, "gru": _gru, "lstm": _lstm}


class State(Recent):
    """A gated state of the target's width that starts as h_t itself and is read by the target's own LM head.

    s_k = z * s_{k-1} + (1 - z) * c with gates and the candidate c computed from the token and the normalised state.
    c is not squashed, since the final-norm output that it replaces has no bound. One vector is the whole memory, so
    the form fits engines that feed one hidden vector back.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        inner: int = 0  # width inside the candidate; 0 = twice the target's hidden size

        def __post_init__(self) -> None:
            configs.at_least(self, doing="building a state drafter", inner=0)

    def __init__(self, config: Config, shape: TargetShape) -> None:
        super().__init__()
        self.width = shape.hidden_size
        inner = config.inner or 2 * self.width
        self.gates = nn.Linear(2 * self.width, 2 * self.width)
        self.up = nn.Linear(2 * self.width, inner)
        self.down = nn.Linear(inner, self.width)

    def start(self, context_BD: Tensor) -> Tensor:
        return context_BD

    def step(self, state: Tensor, x_BE: Tensor) -> tuple[Tensor, Tensor]:
        known = normalize(state)
        keep, reset = torch.sigmoid(self.gates(torch.cat([x_BE, known], dim=-1))).chunk(2, dim=-1)
        candidate = self.down(F.silu(self.up(torch.cat([x_BE, reset * known], dim=-1))))
        state = keep * state + (1 - keep) * candidate
        return state, state


class Fixed(Recent):
    """One transformer layer whose attention weights depend on the offset only: nothing is compared at run time.

    Head h mixes the last tokens with weights softmax(a_h[0], .., a_h[j]) where a_h[i] belongs to the token i steps
    back; then a feed-forward block. Both blocks are residual.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        heads: int = 8
        window: int = 16  # tokens looked back; older ones are out of sight
        inner: int = 0  # feed-forward width; 0 = twice the target's hidden size

        def __post_init__(self) -> None:
            configs.at_least(self, doing="building a fixed-attention drafter", heads=1, window=1, inner=0)

    def __init__(self, config: Config, shape: TargetShape) -> None:
        super().__init__()
        self.width, self.window = shape.hidden_size, config.window
        self.heads = _largest_divisor(self.width, config.heads)
        inner = config.inner or 2 * self.width
        self.scores_HW = nn.Parameter(-0.5 * torch.arange(config.window, dtype=torch.float32).repeat(self.heads, 1))
        self.values = nn.Linear(self.width, self.width)
        self.mix = nn.Linear(self.width, self.width)
        self.up = nn.Linear(self.width, inner)
        self.down = nn.Linear(inner, self.width)

    def start(self, context_BD: Tensor) -> Tensor:
        return context_BD.new_zeros(context_BD.shape[0], 0, self.width)

    def step(self, state: Tensor, x_BE: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.cat([state, self.values(x_BE)[:, None]], dim=1)[:, -self.window :]
        past_BJHE = state.flip(1).unflatten(-1, (self.heads, -1))  # newest first
        weights_HJ = torch.softmax(self.scores_HW[:, : past_BJHE.shape[1]], dim=-1)
        return state, self._blocks(x_BE, torch.einsum("hj,bjhe->bhe", weights_HJ, past_BJHE).flatten(1))

    def unroll(self, context_ND: Tensor, x_NKE: Tensor) -> Tensor:
        """All offsets in one product with a [H,K,K] matrix of fixed weights, lower triangular."""
        weights_HKK = torch.softmax(self._biases(x_NKE.shape[1]), dim=-1)
        values_NKHE = self.values(x_NKE).unflatten(-1, (self.heads, -1))
        return self._blocks(x_NKE, torch.einsum("hkj,njhe->nkhe", weights_HKK, values_NKHE).flatten(2))

    def _biases(self, num_tokens: int) -> Tensor:
        """[H,K,K] what each offset adds to a score; minus infinity where a token is out of sight."""
        device = self.scores_HW.device
        offset_KK = torch.arange(num_tokens, device=device)[:, None] - torch.arange(num_tokens, device=device)[None]
        seen_KK = (offset_KK >= 0) & (offset_KK < self.window)
        return self.scores_HW[:, offset_KK.clamp(0, self.window - 1)].masked_fill(~seen_KK, float("-inf"))

    def _blocks(self, x: Tensor, mixed: Tensor) -> Tensor:
        x = x + self.mix(mixed)
        return x + self.down(F.silu(self.up(normalize(x))))


class Attention(Fixed):
    """The same layer with attention that compares: softmax_i(q . k_i / sqrt(E) + a_h[i]) over the recent tokens."""

    def __init__(self, config: Fixed.Config, shape: TargetShape) -> None:
        super().__init__(config, shape)
        self.queries_keys = nn.Linear(self.width, 2 * self.width)

    def start(self, context_BD: Tensor) -> Tensor:
        return context_BD.new_zeros(context_BD.shape[0], 0, 2 * self.width)

    def step(self, state: Tensor, x_BE: Tensor) -> tuple[Tensor, Tensor]:
        query_BD, key_BD = self.queries_keys(x_BE).chunk(2, dim=-1)
        newest_B1X = torch.cat([key_BD, self.values(x_BE)], dim=-1)[:, None]
        state = torch.cat([state, newest_B1X], dim=1)[:, -self.window :]
        keys_BJHE, values_BJHE = (self._by_head(part) for part in state.flip(1).chunk(2, dim=-1))  # newest first
        scores_BHJ = torch.einsum("bhe,bjhe->bhj", self._scaled(query_BD), keys_BJHE)
        weights_BHJ = torch.softmax(scores_BHJ + self.scores_HW[:, : state.shape[1]], dim=-1)
        return state, self._blocks(x_BE, torch.einsum("bhj,bjhe->bhe", weights_BHJ, values_BJHE).flatten(1))

    def unroll(self, context_ND: Tensor, x_NKE: Tensor) -> Tensor:
        queries_NKD, keys_NKD = self.queries_keys(x_NKE).chunk(2, dim=-1)
        scores_NHKK = torch.einsum("nkhe,njhe->nhkj", self._scaled(queries_NKD), self._by_head(keys_NKD))
        weights_NHKK = torch.softmax(scores_NHKK + self._biases(x_NKE.shape[1]), dim=-1)
        values_NKHE = self._by_head(self.values(x_NKE))
        return self._blocks(x_NKE, torch.einsum("nhkj,njhe->nkhe", weights_NHKK, values_NKHE).flatten(2))

    def _by_head(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1))

    def _scaled(self, x: Tensor) -> Tensor:
        return self._by_head(x) * (self.width // self.heads) ** -0.5


class Concat(Recent):
    """All tokens of the round side by side: at each offset an MLP of its own over [h; e_0; ..; e_k], added to h.

    Its state is how many tokens there were and what they were. Source: Ankner et al. 2024, Hydra, section 3.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        num_drafts: int = 5  # one MLP for each offset; a run hands in its own K

        def __post_init__(self) -> None:
            configs.at_least(self, doing="building a concatenating drafter", num_drafts=1)

    def __init__(self, config: Config, shape: TargetShape) -> None:
        super().__init__()
        self.width, self.max_drafts = shape.hidden_size, config.num_drafts
        widths = [self.width * (offset + 2) for offset in range(config.num_drafts)]
        self.up = nn.ModuleList(nn.Linear(width, self.width) for width in widths)
        self.down = nn.ModuleList(nn.Linear(self.width, self.width) for _ in widths)
        for layer in self.down:
            nn.init.zeros_(layer.weight)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def start(self, context_BD: Tensor) -> tuple[int, Tensor, Tensor]:
        return 0, context_BD, normalize(context_BD)

    def step(self, state: tuple[int, Tensor, Tensor], x_BE: Tensor) -> tuple[tuple[int, Tensor, Tensor], Tensor]:
        offset, context_BD, read_BX = state
        read_BX = torch.cat([read_BX, x_BE], dim=-1)
        moved_BD = self.down[offset](F.silu(self.up[offset](read_BX)))
        return (offset + 1, context_BD, read_BX), context_BD + moved_BD


class Newest(Recent):
    """The newest token alone, by a projection of low rank."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        rank: int = 128

        def __post_init__(self) -> None:
            configs.at_least(self, doing="building a newest-token part", rank=1)

    def __init__(self, config: Config, shape: TargetShape) -> None:
        super().__init__()
        self.width = config.rank
        self.down = nn.Linear(shape.hidden_size, config.rank)

    def start(self, context_BD: Tensor) -> None:
        return None

    def step(self, state: None, x_BE: Tensor) -> tuple[None, Tensor]:
        return None, self.down(x_BE)

    def unroll(self, context_ND: Tensor, x_NKE: Tensor) -> Tensor:
        return self.down(x_NKE)


def _largest_divisor(number: int, at_most: int) -> int:
    return next(candidate for candidate in range(min(number, at_most), 0, -1) if number % candidate == 0)
