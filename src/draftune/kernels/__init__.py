"""What decoding spends its time on, compiled once for this machine or replayed. Knows no room; everyone may ask."""

from draftune.kernels.build import kernel
from draftune.kernels.modules import with_packed_linears
from draftune.kernels.products import (
    BLOCK,
    DTYPES,
    LANES,
    Matrix,
    NormalizedRows,
    gru_cell,
    largest,
    lstm_cell,
    pack,
    padded,
    rnn_cell,
    roomy,
    served,
)
from draftune.kernels.recurrent import RecurrentMlp
from draftune.kernels.replay import Replay

__all__ = [
    "BLOCK",
    "DTYPES",
    "LANES",
    "Matrix",
    "NormalizedRows",
    "RecurrentMlp",
    "Replay",
    "gru_cell",
    "kernel",
    "largest",
    "lstm_cell",
    "pack",
    "padded",
    "rnn_cell",
    "roomy",
    "served",
    "with_packed_linears",
]
