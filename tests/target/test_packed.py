"""The packed runner says what the general one says, and the same to the last bit however a prefix was read."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor

from draftune import errors
from draftune.decode.loop import DecodeConfig, Decoder
from draftune.decode.plain import PlainDecoder
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.kernels import build
from draftune.target import lora
from draftune.target.base import FINAL
from draftune.target.packed import PackedRunner
from draftune.target.runner import HuggingFaceRunner
from draftune.target.target import Target
from draftune.target.tiny import WINDOW, tiny
from draftune.types import Request
from tests.target import ragged
from tests.target.test_runner import CHAINS, TREE_DEPTHS, TREE_PARENTS, ancestors

MODELS = {
    "llama": {},
    "llama tied": {"tie_word_embeddings": True},
    "mistral": {"head_dim": 16},
    "mistral without a window": {"head_dim": 16, "sliding_window": None},
    "qwen2 with biases": {},
    "qwen3": {"head_dim": 16},
    "qwen3 with windows": {
        "head_dim": 16,
        "sliding_window": WINDOW,
        "use_sliding_window": True,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
    "phi3": {},
    "phi3 turned in part": {"partial_rotary_factor": 0.5, "hidden_size": 128},
}
DTYPES = ("float32", "bfloat16")

needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in build.COMPILERS), reason="no C++ compiler is here"
)
pytestmark = needs_compiler


def model(name: str, dtype: str = "float32") -> Target:
    settings = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, **MODELS[name]}
    target, dice = tiny(name.split()[0], dtype=dtype, **settings), torch.Generator().manual_seed(0)
    for name, weight in target.causal.named_parameters():
        if name.endswith("bias"):  # which start as zeros
            weight.data.copy_(torch.randn(weight.shape, generator=dice))
    return target


@pytest.mark.parametrize("name", MODELS)
def test_ragged_blocks_equal_the_plain_forward(name: str) -> None:
    target, tokens_BT = model(name), ragged.tokens()
    runner = target.runner("packed")
    assert isinstance(runner, PackedRunner)
    assert ragged.difference(ragged.walk(runner, tokens_BT), ragged.plain_logits(target, tokens_BT), 1) < 2e-4


@pytest.mark.parametrize("name", MODELS)
def test_bfloat16_is_as_near_to_the_truth_as_with_the_general_runner(name: str) -> None:
    target, tokens_BT = model(name, "bfloat16"), ragged.tokens()
    walks = [ragged.walk(target.runner(kind), tokens_BT) for kind in ("packed", "general")]
    target.model.double()
    packed, general = (ragged.difference(walk, ragged.plain_logits(target, tokens_BT), 1) for walk in walks)
    assert packed < 1.2 * general


@pytest.mark.parametrize("name", ["llama", "mistral", "phi3"])
def test_taps_equal_those_of_the_general_runner(name: str) -> None:
    target, tokens_BT, taps = model(name), ragged.tokens(), (2, FINAL, 0, 3)
    packed, general = (ragged.walk(target.runner(kind), tokens_BT, taps) for kind in ("packed", "general"))
    for one, other in zip(packed.steps, general.steps, strict=True):
        torch.testing.assert_close(one[2], other[2], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3 with windows"])
def test_a_tree_equals_its_chains_to_the_last_bit(name: str) -> None:
    """Each path of a tree says what the same tokens say in a row, and so does what follows after it was kept."""
    runner, prompts = model(name).runner("packed"), [list(range(4, 30)), [9, 8, 7]]
    block_BN = torch.arange(2 * len(TREE_DEPTHS)).view(2, -1) + 10
    after_B1 = torch.tensor([[40], [41]])
    for chain in CHAINS:
        runner.open(2, 60, (FINAL,))
        runner.prefill(prompts)
        in_tree = runner.forward(block_BN, torch.tensor(TREE_DEPTHS), ancestors(TREE_PARENTS)).logits[:, chain]
        runner.commit(torch.tensor([len(chain)] * 2), torch.tensor([chain] * 2))
        then = runner.forward(after_B1).logits
        runner.open(2, 60, (FINAL,))
        runner.prefill(prompts)
        assert torch.equal(in_tree, runner.forward(block_BN[:, chain]).logits)
        runner.commit(torch.tensor([len(chain)] * 2))
        assert torch.equal(then, runner.forward(after_B1).logits)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_a_prefix_is_read_the_same_however_it_is_cut(name: str, dtype: str) -> None:
    runner, tokens = model(name, dtype).runner("packed"), ragged.tokens()[0].tolist()
    wanted_TV = said(runner, tokens[:5], [1] * 30)
    for prompt, blocks in ((5, [30]), (5, [3, 13, 1, 5, 8]), (20, [15])):
        met_TV = said(runner, tokens[:prompt], blocks, tokens)
        assert torch.equal(met_TV, wanted_TV[prompt - 5 :])


def said(runner: PackedRunner, prompt: list[int], blocks: list[int], tokens: list[int] | None = None) -> Tensor:
    """Logits [T,V] of the tokens after a prompt, read in blocks of the given sizes, beside another row."""
    tokens = tokens or ragged.tokens()[0].tolist()
    runner.open(2, 60, (FINAL,))
    runner.prefill([prompt, [7, 8]])
    place, found = len(prompt), []
    for size in blocks:
        block = tokens[place : place + size]
        found.append(runner.forward(torch.tensor([block, block[::-1]])).logits[0])
        runner.commit(torch.tensor([size, 0]))
        place += size
    return torch.cat(found)


@pytest.mark.parametrize("name", ["lookup", "semiar-gru"])
def test_drafted_text_is_plain_text_in_bfloat16(name: str) -> None:
    """In low precision too: no near-tie can turn, for there is no other rounding."""
    target = model("llama", "bfloat16")
    drafter = DRAFTERS.load(name)().build(target.parts(), Vocabulary.full(64)).eval()
    requests = [Request(id=str(n), prompt=(4 + n, 5, 6 + n), max_new_tokens=200) for n in range(3)]
    drafted = Decoder(target.runner("packed"), drafter, DecodeConfig(num_drafts=4)).generate(requests)
    plain = [PlainDecoder(target.runner("packed")).generate([request])[0] for request in requests]
    assert [one.tokens for one in drafted] == [one.tokens for one in plain]
    if name == "lookup":
        assert sum(round_.num_accepted for one in drafted for round_ in one.rounds) > 10


def test_weights_that_changed_are_packed_again() -> None:
    target = model("llama")
    before = _first(target)
    with torch.no_grad():
        target.layers[1].mlp.down_proj.weight.mul_(2)
    after = _first(target)
    assert not torch.equal(before, after)
    torch.testing.assert_close(after, _first(target, "general"), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", ["llama", "phi3"])
def test_a_model_that_gave_up_its_weights_is_read_by_the_packed_runner_alone(name: str, late: bool) -> None:
    target, known_as = model(name), model(name).fingerprint()
    before = _first(model(name))
    held = _held(target)
    if late:
        target.runner()
    torch.testing.assert_close(_first(target, release=True), before, rtol=0, atol=0)
    torch.testing.assert_close(_first(target), before, rtol=0, atol=0)
    assert target.released
    assert _held(target) < held / 2
    assert target.fingerprint() == known_as
    with pytest.raises(errors.TargetError, match="its weights were given up to the packed one"):
        target.runner("general")


def _held(target: Target) -> int:
    return sum(weight.numel() for weight in target.layers.parameters())


def _first(target: Target, kind: str = "auto", *, release: bool = False) -> Tensor:
    runner = target.runner(kind, release=release)
    runner.open(1, 8, ())
    return runner.prefill([[4, 5, 6]]).logits


def no_room(target: Target) -> str:
    with pytest.raises(errors.TargetError) as caught:
        target.runner("packed")
    return caught.value.met


def test_what_it_does_not_serve_goes_to_the_general_runner() -> None:
    wide = {"hidden_size": 64, "num_attention_heads": 4}
    adapted = lora.add(tiny("llama", dtype="float32", **wide), lora.LoraSettings(rank=2))
    for target, reason in (
        (tiny("llama", **wide), "it is in float64"),
        (tiny("llama", dtype="float32"), "its head width 8 is no multiple of 16"),
        (tiny("gemma2", dtype="float32", hidden_size=64, head_dim=16), "its family is 'gemma2'"),
        (tiny("llama", dtype="float32", attention_bias=True, **wide), "its attention has an output bias"),
        (tiny("llama", dtype="float32", hidden_act="gelu", **wide), "its activation is 'gelu'"),
        (adapted, "its adapter is not folded into the weights"),
    ):
        assert no_room(target) == reason
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert isinstance(target.runner(), HuggingFaceRunner)
    with pytest.warns(RuntimeWarning, match="decoding with the general runner: its family is 'gemma2'"):
        tiny("gemma2", dtype="float32", hidden_size=64, head_dim=16).runner()


def test_a_machine_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    build.kernel.cache_clear()
    monkeypatch.setenv("DRAFTUNE_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert no_room(model("llama")) == "no C++ compiler was found (no-such-compiler)"
    monkeypatch.setenv("CXX", "false")
    assert no_room(model("llama")) == "it left with 1"
    assert list(tmp_path.iterdir()) == []
    build.kernel.cache_clear()


def test_the_kernel_is_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    build.kernel()
    build.kernel.cache_clear()
    monkeypatch.setattr(build, "_compile", lambda compiler, path: pytest.fail("it was there already"))
    build.kernel()


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DRAFTUNE_CACHE", str(tmp_path / "file"))
    build.kernel.cache_clear()
    assert build.kernel().read_float32
    build.kernel.cache_clear()


@pytest.mark.parametrize("token", [-1, 64])
def test_a_token_that_the_model_does_not_know(token: int) -> None:
    runner = model("llama").runner("packed")
    runner.open(1, 8, ())
    with pytest.raises(IndexError, match=f"token {token} where the model knows 0..63"):
        runner.prefill([[4, token]])
