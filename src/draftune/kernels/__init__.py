"""What decoding on a CPU spends its time on, compiled once for this machine. Knows no room; everyone may ask."""

from draftune.kernels.build import kernel
from draftune.kernels.modules import with_packed_linears
from draftune.kernels.products import BLOCK, LANES, Matrix, gru_cell, lstm_cell, pack, rnn_cell, served

__all__ = [
    "BLOCK",
    "LANES",
    "Matrix",
    "gru_cell",
    "kernel",
    "lstm_cell",
    "pack",
    "rnn_cell",
    "served",
    "with_packed_linears",
]
