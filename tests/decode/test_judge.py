"""Where a batch is judged: greedy without float64, which some devices lack, and sampled where there is float64."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from draftune.decode import noise
from draftune.decode.loop import Decoder
from draftune.decode.plain import PlainDecoder
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.target.tiny import tiny
from draftune.types import Request

CONSTANTS = (torch.ops.aten.lift_fresh.default, torch.ops.aten.detach_.default)  # made on the host


class NoDoubles(TorchDispatchMode):
    """A device without float64: every product in it is an error."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **kwargs or {})
        if func in CONSTANTS:
            return made
        assert getattr(made, "dtype", None) != torch.float64, func
        return made


@pytest.mark.parametrize("name", ["semiar-gru", "medusa"])
def test_greedy_decoding_needs_no_float64(name: str) -> None:
    target = tiny(dtype="float32")
    drafter = DRAFTERS.load(name)().build(target.parts(), Vocabulary(torch.arange(0, 64, 2), 64))
    request = Request(id="a", prompt=(4, 5, 6), max_new_tokens=12)
    decoders = [PlainDecoder(target.runner()), Decoder(target.runner(), drafter)]
    wanted = [decoder.generate([request]) for decoder in decoders]
    with NoDoubles():
        assert [decoder.generate([request]) for decoder in decoders] == wanted


def test_noise_is_made_where_there_is_float64() -> None:
    assert noise.place("mps").type == "cpu"
    assert noise.place("cuda:1") == torch.device("cuda:1")
    assert noise.place(torch.device("cpu")).type == "cpu"
