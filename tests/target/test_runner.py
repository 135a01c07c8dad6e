"""The cache with a length per row gives what the model gives without one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from draftune import errors
from draftune.target import anatomy, masks, proof
from draftune.target.base import FINAL
from draftune.target.target import Target
from draftune.target.tiny import FAMILIES, WINDOW, tiny
from tests.target import ragged

EXACT, EAGER = 1e-10, 1e-5  # eager attention takes its softmax in float32, and Gemma-2's soft-cap needs eager
TREE_DEPTHS = [0, 1, 1, 2, 2, 2, 3, 3]  # root; a b; aa ab ba; aaa baa
TREE_PARENTS = [-1, 0, 0, 1, 1, 2, 3, 5]
CHAINS = ([0, 1, 3, 6], [0, 1, 4], [0, 2, 5, 7])


def tolerance(target: Target) -> float:
    return EAGER if target.causal.config.model_type == "gemma2" else EXACT


def ancestors(parents: list[int]) -> Tensor:
    """[query, key]: the key is the node itself or above it."""
    table = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents):
        if parent >= 0:
            table[node] |= table[parent]
    return table


@pytest.mark.parametrize("family", FAMILIES)
def test_ragged_blocks_equal_the_plain_forward(family: str) -> None:
    target, tokens_BT = tiny(family), ragged.tokens()
    walked = ragged.walk(target.runner(), tokens_BT)
    assert ragged.difference(walked, ragged.plain_logits(target, tokens_BT), 1) < tolerance(target)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_eager_attention_takes_the_masks_too(family: str) -> None:
    target, tokens_BT = tiny(family), ragged.tokens()
    target.model.set_attn_implementation("eager")
    walked = ragged.walk(target.runner(), tokens_BT)
    assert ragged.difference(walked, ragged.plain_logits(target, tokens_BT), 1) < EAGER


@pytest.mark.parametrize("settings", [{"sliding_window": WINDOW}, {"partial_rotary_factor": 0.5}])
def test_phi3_with_a_window_or_partial_rotation(settings: dict) -> None:
    target, tokens_BT = tiny("phi3", **settings), ragged.tokens()
    walked = ragged.walk(target.runner(), tokens_BT)
    assert ragged.difference(walked, ragged.plain_logits(target, tokens_BT), 1) < EXACT


def test_the_window_matters() -> None:
    """The rows above are long enough to see it: without the window the logits differ."""
    tokens_BT = ragged.tokens()
    windowed, whole = tiny("mistral"), tiny("mistral", sliding_window=None)
    both = [ragged.plain_logits(target, tokens_BT) for target in (windowed, whole)]
    assert (both[0] - both[1]).abs().max() > 0.1


@pytest.mark.parametrize("family", FAMILIES)
def test_taps_equal_output_hidden_states(family: str) -> None:
    target, tokens_BT = tiny(family), ragged.tokens()
    taps = (2, FINAL, 0)
    walked = ragged.walk(target.runner(), tokens_BT, taps)
    with torch.no_grad():
        said = target.model(input_ids=tokens_BT, use_cache=False, output_hidden_states=True).hidden_states
    wanted = torch.stack([said[3], said[-1], said[1]], dim=2)  # entry i + 1 is layer i's output; the last is normed
    assert ragged.difference(walked, wanted, 2) < tolerance(target)
    hooks = [len(layer._forward_hooks) for layer in target.layers]  # transformers leaves some of its own
    with torch.no_grad():
        taught = target.hidden(tokens_BT, torch.full((3,), ragged.TOTAL), taps)
    assert (taught.hidden - wanted).abs().max() < 1e-12
    assert taught.taps == taps
    assert [len(layer._forward_hooks) for layer in target.layers] == hooks


@pytest.mark.parametrize("window", [WINDOW, 2])  # 2 hides nodes of the tree from one another
@pytest.mark.parametrize("family", FAMILIES)
def test_a_tree_equals_its_chains(family: str, window: int) -> None:
    target, tokens_BT = tiny(family, sliding_window=window), ragged.tokens()
    depths, table = torch.tensor(TREE_DEPTHS), ancestors(TREE_PARENTS)
    runner = target.runner()
    runner.open(3, ragged.TOTAL, (1, FINAL))
    runner.prefill([row[:n].tolist() for row, n in zip(tokens_BT, ragged.PROMPTS, strict=True)])
    nodes_BM = tokens_BT[:, -8:]
    tree = runner.forward(nodes_BM, depths, table)
    for chain in CHAINS:
        step = runner.forward(nodes_BM[:, chain])
        assert (step.logits - tree.logits[:, chain]).abs().max() < tolerance(target)
        assert (step.features.hidden - tree.features.hidden[:, chain]).abs().max() < tolerance(target)


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma3"])
def test_the_accepted_path_of_a_tree_is_committed(family: str) -> None:
    target, tokens_BT = tiny(family), ragged.tokens()
    runner = target.runner()
    runner.open(3, ragged.TOTAL, (FINAL,))
    runner.prefill([row[:n].tolist() for row, n in zip(tokens_BT, ragged.PROMPTS, strict=True)])
    nodes_BM = tokens_BT[:, -8:]
    runner.forward(nodes_BM, torch.tensor(TREE_DEPTHS), ancestors(TREE_PARENTS))
    paths, counts = [[0, 2, 5, 0], [0, 1, 3, 6], [0, 1, 4, 0]], [2, 4, 3]
    runner.commit(torch.tensor(counts), torch.tensor(paths))
    after = runner.forward(tokens_BT[:, -4:-2]).logits
    for row, (path, count) in enumerate(zip(paths, counts, strict=True)):
        kept = nodes_BM[row, path[:count]]
        whole = torch.cat([tokens_BT[row, : ragged.PROMPTS[row]], kept, tokens_BT[row, -4:-2]])
        wanted = ragged.plain_logits(target, whole[None])[0, -2:]
        assert (after[row] - wanted).abs().max() < EXACT


@pytest.mark.parametrize("window", [None, 3])
def test_a_tree_without_branches_has_the_mask_of_a_chain(window: int | None) -> None:
    lengths_B, offsets_M = torch.tensor([0, 5, 2]), torch.arange(4)
    chain = masks.chain(lengths_B[:, None] + offsets_M, 9, window)
    triangle = torch.ones(4, 4, dtype=torch.bool).tril()
    assert torch.equal(chain, masks.tree(lengths_B, offsets_M, triangle, 9, window))
    visible = [[slot for slot in range(9) if chain[1, 0, query, slot]] for query in range(4)]
    assert visible[2] == ([0, 1, 2, 3, 4, 5, 6, 7] if window is None else [5, 6, 7])


def test_a_long_prompt_is_read_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    target, tokens_BT = tiny("gemma3"), ragged.tokens()
    whole = ragged.walk(target.runner(), tokens_BT)
    monkeypatch.setattr("draftune.target.blocks.CHUNK", 5)
    chunked = ragged.walk(target.runner(), tokens_BT)
    for one, other in zip(whole.steps, chunked.steps, strict=True):
        assert (one[1] - other[1]).abs().max() < EXACT


def test_prefill_gives_the_last_logits_and_all_features() -> None:
    target, tokens_BT = tiny(), ragged.tokens()
    runner = target.runner()
    runner.open(2, 20, (FINAL, 0))
    step = runner.prefill([tokens_BT[0, :1].tolist(), tokens_BT[1, :6].tolist()], ids=("a", "b"))
    assert step.logits.shape == (2, 1, 64)
    assert step.features.hidden.shape == (2, 6, 2, 32)
    assert (step.features.ids, step.features.taps) == (("a", "b"), (FINAL, 0))
    assert runner.lengths.tolist() == [1, 6]
    assert runner.lengths.dtype == torch.int64


def test_the_same_forward_twice_says_the_same() -> None:
    target, tokens_BT = tiny("gemma3"), ragged.tokens()
    runner = target.runner()
    runner.open(3, ragged.TOTAL, (FINAL,))
    runner.prefill([row[:7].tolist() for row in tokens_BT])
    runner.forward(tokens_BT[:, 20:26])  # garbage that is never counted
    first = runner.forward(tokens_BT[:, 7:9]).logits
    runner.commit(torch.tensor([0, 0, 0]))
    assert torch.equal(first, runner.forward(tokens_BT[:, 7:9]).logits)


def test_drafts_may_reach_beyond_the_capacity_but_not_stay_there() -> None:
    target, tokens_BT = tiny(), ragged.tokens()
    runner = target.runner()
    runner.open(3, 12, (FINAL,))
    runner.prefill([row[:9].tolist() for row in tokens_BT], ids=("a", "b", "c"))
    step = runner.forward(tokens_BT[:, 9:19])
    wanted = ragged.plain_logits(target, tokens_BT[:, :19])[:, 9:]
    assert (step.logits - wanted).abs().max() < EXACT
    with pytest.raises(errors.ConfigError, match="'b': 13 tokens where room was made for 12; open"):
        runner.commit(torch.tensor([3, 4, 0]))
    runner.commit(torch.tensor([3, 3, 0]))
    assert runner.lengths.tolist() == [12, 12, 9]


def test_a_prompt_longer_than_the_capacity_is_refused() -> None:
    runner = tiny().runner()
    runner.open(2, 4, (FINAL,))
    with pytest.raises(errors.ConfigError, match="'1': 5 tokens where room was made for 4"):
        runner.prefill([[1], [1, 2, 3, 4, 5]])


def test_an_empty_prompt_is_refused() -> None:
    runner = tiny().runner()
    runner.open(2, 4, (FINAL,))
    with pytest.raises(errors.DataError, match="prompt of 'y': it is empty; give at least one token"):
        runner.prefill([[1], []], ids=("x", "y"))


def test_more_room_than_the_model_has_positions_is_refused() -> None:
    runner = tiny(max_position_embeddings=32).runner()
    with pytest.raises(errors.ConfigError, match=r"2 rows of 33 tokens: the model takes 1\.\.32 tokens"):
        runner.open(2, 33, (FINAL,))


def test_a_layer_that_is_not_there_is_refused() -> None:
    with pytest.raises(errors.ConfigError, match=r"layer 4 of a model with 4 layers; choose 0\.\.3"):
        tiny().runner().open(1, 8, (4,))


def test_committing_more_than_was_read_is_a_fault_of_ours() -> None:
    runner = tiny().runner()
    runner.open(1, 20, (FINAL,))
    runner.prefill([[5, 6]])
    with pytest.raises(ValueError, match="to commit after a forward of 0"):
        runner.commit(torch.tensor([1]))
    runner.forward(torch.tensor([[5, 6]]))
    with pytest.raises(ValueError, match="to commit after a forward of 2"):
        runner.commit(torch.tensor([3]))


def test_open_forgets() -> None:
    target, tokens_BT = tiny(), ragged.tokens()
    runner = target.runner()
    ragged.walk(runner, tokens_BT)
    again = ragged.walk(runner, ragged.tokens(seed=1))
    assert ragged.difference(again, ragged.plain_logits(target, ragged.tokens(seed=1)), 1) < EXACT
    runner.open(1, 60)
    assert runner.lengths.tolist() == [0]
    step = runner.prefill([tokens_BT[0].tolist()])
    assert (step.logits[0, 0] - ragged.plain_logits(target, tokens_BT[:1])[0, -1]).abs().max() < EXACT


@pytest.mark.parametrize("rope_type", ["longrope", "dynamic"])
def test_rotations_that_depend_on_the_batch_end_at_the_original_length(rope_type: str) -> None:
    """Up to it short rows are right beside rows at the very edge; beyond it no room is made."""
    factors = {"short_factor": [1.0] * 4, "long_factor": [3.0] * 4} if rope_type == "longrope" else {"factor": 4.0}
    original = {"original_max_position_embeddings": 24}
    target = tiny(
        "phi3" if rope_type == "longrope" else "llama",
        max_position_embeddings=96 if rope_type == "longrope" else 24,
        rope_parameters={"rope_type": rope_type, "rope_theta": 10000.0, **factors, **original},
        **(original if rope_type == "longrope" else {}),
    )
    assert target.shape.max_length == 24
    runner = target.runner()
    with pytest.raises(errors.ConfigError, match=r"1\.\.24 tokens"):
        runner.open(2, 25, (FINAL,))
    tokens_BT = ragged.tokens()[:2]
    runner.open(2, 24, (FINAL,))
    runner.prefill([tokens_BT[0, :3].tolist(), tokens_BT[1, :22].tolist()])
    step = runner.forward(torch.stack([tokens_BT[0, 3:9], tokens_BT[1, 22:28]]))
    short = ragged.plain_logits(target, tokens_BT[:1, :9])
    long = ragged.plain_logits(target, tokens_BT[1:, :24])
    assert (step.logits[0] - short[0, 3:]).abs().max() < EXACT
    assert (step.logits[1, :2] - long[0, 22:]).abs().max() < EXACT


def test_training_mode_is_left_for_reading() -> None:
    """Dropout would make every forward another: the runner reads in evaluation mode."""
    target, tokens_BT = tiny("llama", attention_dropout=0.5), ragged.tokens()
    target.model.train()
    walked = ragged.walk(target.runner(), tokens_BT)
    assert not target.model.training
    assert ragged.difference(walked, ragged.plain_logits(target, tokens_BT), 1) < EXACT


def other(model_type: str, **settings: object) -> Target:
    """A tiny model of a family that no table here names."""
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {"vocab_size": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.25}
    config = AutoConfig.for_model(model_type, **{**sizes, **settings})
    torch.manual_seed(0)
    return Target(AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval(), None, model_type)


GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "eos_token_id": 2}


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_window_that_the_family_ignores_is_ignored(family: str) -> None:
    target, tokens_BT = tiny(family, sliding_window=2), ragged.tokens()
    walked = ragged.walk(target.runner(), tokens_BT)
    assert ragged.difference(walked, ragged.plain_logits(target, tokens_BT), 1) < EXACT


def test_an_unproven_family_with_a_window_is_tried_beyond_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    target = other("starcoder2", **sizes, num_key_value_heads=2, sliding_window=6)
    walked = ragged.walk(target.runner(), ragged.tokens())
    assert ragged.difference(walked, ragged.plain_logits(target, ragged.tokens()), 1) < 1e-4
    chain = masks.chain
    monkeypatch.setattr(masks, "chain", lambda slots_BM, view, window: chain(slots_BM, view, None))
    with pytest.raises(errors.TargetError, match=r"the logits of a short trial were off by \d+%"):
        other("starcoder2", **sizes, num_key_value_heads=2, sliding_window=6).runner()


def test_an_unproven_family_is_tried_and_served() -> None:
    target, tokens_BT = other("gpt2", **GPT2), ragged.tokens()
    assert target.causal.config.model_type not in proof.PROVEN
    walked = ragged.walk(target.runner(), tokens_BT)
    assert ragged.difference(walked, ragged.plain_logits(target, tokens_BT), 1) < 1e-4


def test_an_unproven_family_that_fails_the_trial_is_refused() -> None:
    """A body that looks at more than its arguments: here one that counts how often it was called."""
    target = other("gpt2", **GPT2)
    calls: list[None] = []

    def count(module: torch.nn.Module, inputs: object, output: Tensor) -> Tensor:
        calls.append(None)
        return output * torch.linspace(-1, len(calls), output.shape[-1])

    target.causal.get_input_embeddings().register_forward_hook(count)
    with pytest.raises(
        errors.TargetError, match=r"family 'gpt2': with it the logits of a short trial were off by \d+%"
    ):
        target.runner()


@pytest.mark.parametrize(
    ("model_type", "reason"),
    [
        ("qwen3_next", "layers of type linear_attention"),
        ("llama4_text", "layers of type chunked_attention"),
        ("deepseek_v3", "multi-head latent attention"),
        ("gemma3", "multi-modal wrapper"),
        ("t5", "encoder-decoder"),
        ("gemma3n_text", "share the keys and values of others"),
    ],
)
def test_families_that_cannot_be_served_are_refused(model_type: str, reason: str) -> None:
    from transformers import AutoConfig

    with pytest.raises(errors.TargetError, match=reason):
        anatomy.refuse_unserved(AutoConfig.for_model(model_type))


def test_a_body_without_positions_is_refused() -> None:
    target = other("bloom", hidden_size=32, n_layer=2, n_head=4)
    with pytest.raises(errors.TargetError, match="into BloomModel: its forward takes no position_ids"):
        target.runner()


def test_an_attention_that_takes_no_mask_is_refused() -> None:
    target = tiny()
    target.causal.config._attn_implementation = "flash_attention_2"
    with pytest.raises(errors.TargetError, match="attention 'flash_attention_2', which does not take a ready mask"):
        target.runner()
