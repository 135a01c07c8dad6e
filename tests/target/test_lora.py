"""Adapters: trained, attached, saved, folded in, known apart."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch

from draftune import errors
from draftune.target import lora
from draftune.target.lora import LoraSettings
from draftune.target.target import Target
from draftune.target.tiny import FAMILIES, tiny
from tests.target import ragged


def shaken(target: Target, seed: int = 1) -> Target:
    """The target with an adapter that has learned something, here noise."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in target.model.named_parameters():
            if "lora_" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.2)
    return target


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_a_fresh_adapter_changes_nothing_and_alone_is_trained() -> None:
    tokens_BT, plain = ragged.tokens(), ragged.plain_logits(tiny(), ragged.tokens())
    target = lora.add(tiny(), LoraSettings(rank=3, alpha=6))
    assert torch.equal(ragged.plain_logits(target, tokens_BT), plain)
    trained = {name for name, weight in target.model.named_parameters() if weight.requires_grad}
    assert trained
    assert all("lora_" in name for name in trained)
    assert target.model.peft_config["default"].r == 3
    assert not any("lm_head" in name for name in trained)


def test_modules_may_be_named() -> None:
    target = lora.add(tiny(), LoraSettings(modules="q_proj, v_proj"))
    trained = {name.split(".")[-4] for name, weight in target.model.named_parameters() if weight.requires_grad}
    assert trained == {"q_proj", "v_proj"}
    with pytest.raises(errors.ConfigError, match=r"adapter to 'nothing': .*; name modules that the model has"):
        lora.add(tiny(), LoraSettings(modules="nothing"))
    with pytest.raises(errors.ConfigError, match="rank 0"):
        LoraSettings(rank=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_ragged_blocks_run_through_an_unmerged_adapter(family: str) -> None:
    target, tokens_BT = shaken(lora.add(tiny(family))), ragged.tokens()
    target.model.eval()
    plain = ragged.plain_logits(target, tokens_BT)
    assert (plain - ragged.plain_logits(tiny(family), tokens_BT)).abs().max() > 0.1
    walked = ragged.walk(target.runner(), tokens_BT)
    assert ragged.difference(walked, plain, 1) < (1e-5 if family == "gemma2" else 1e-10)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_merged_target_says_the_same_and_is_the_same(family: str) -> None:
    target, tokens_BT = shaken(lora.add(tiny(family))), ragged.tokens()
    before = ragged.plain_logits(target, tokens_BT)
    merged = lora.merge(target)
    assert (ragged.plain_logits(merged, tokens_BT) - before).abs().max() < (1e-5 if family == "gemma2" else 1e-10)
    assert not lora.has_adapter(merged)
    assert merged.fingerprint() == target.fingerprint()
    assert torch.equal(ragged.plain_logits(target, tokens_BT), before), "the given target stays as it was"
    assert lora.merge(merged) is merged


@pytest.mark.parametrize("tied", [False, True])
def test_a_merge_may_spend_the_given_target(tied: bool) -> None:
    target, tokens_BT = shaken(lora.add(tiny("llama", tie_word_embeddings=tied))), ragged.tokens()
    before, known = ragged.plain_logits(target, tokens_BT), target.fingerprint()
    stored = target.causal.get_input_embeddings()
    address = stored.weight.data_ptr()
    merged = lora.merge(target, keep=False)
    assert (ragged.plain_logits(merged, tokens_BT) - before).abs().max() < 1e-10
    assert merged.causal.get_input_embeddings() is stored, "no second model"
    assert stored.weight.data_ptr() != address, "it may have lain in a mapped file, which is let go"
    assert (merged.causal.get_output_embeddings().weight is stored.weight) == tied
    assert merged.fingerprint() == known


def test_a_foreign_adapter_is_attached_and_left_untouched(tmp_path: Path) -> None:
    """Trained elsewhere: saved by peft itself, under another name than ours, with alpha and targets of its own."""
    import peft

    config = peft.LoraConfig(r=2, lora_alpha=11, target_modules=["q_proj", "down_proj"], use_rslora=True)
    foreign = peft.get_peft_model(tiny().model, config, adapter_name="theirs")
    with torch.no_grad():
        for name, weight in foreign.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.3, generator=torch.Generator().manual_seed(3))
    foreign.save_pretrained(str(tmp_path))
    tokens_BT, before = ragged.tokens(), contents(tmp_path / "theirs")
    target = lora.attach(tiny(), tmp_path / "theirs")
    with torch.no_grad():
        wanted = foreign(input_ids=tokens_BT).logits
    assert (ragged.plain_logits(target, tokens_BT) - wanted).abs().max() < 1e-10
    assert target.fingerprint() == Target(foreign, None, "theirs").fingerprint()
    assert not any(weight.requires_grad for weight in target.model.parameters())
    ragged.walk(target.runner(), tokens_BT)
    target.parts(), target.fingerprint(), lora.merge(target)
    assert contents(tmp_path / "theirs") == before


@pytest.mark.parametrize("kind", ["dora", "ia3"])
def test_other_kinds_of_adapter_that_live_in_the_weights(kind: str, tmp_path: Path) -> None:
    import peft

    configs = {
        "dora": peft.LoraConfig(r=2, target_modules=["q_proj", "up_proj"], use_dora=True),
        "ia3": peft.IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]),
    }
    foreign = peft.get_peft_model(tiny().model, configs[kind])
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, weight in foreign.named_parameters():
            if "lora_" in name or "ia3_" in name:
                weight.mul_(0.7).add_(torch.randn(weight.shape, generator=generator) * 0.3)
    foreign.save_pretrained(str(tmp_path))
    target, tokens_BT = lora.attach(tiny(), tmp_path), ragged.tokens()
    plain = ragged.plain_logits(target, tokens_BT)
    with torch.no_grad():
        assert torch.equal(plain, foreign(input_ids=tokens_BT).logits)
    assert ragged.difference(ragged.walk(target.runner(), tokens_BT), plain, 1) < 1e-10
    merged = lora.merge(target)
    assert (ragged.plain_logits(merged, tokens_BT) - plain).abs().max() < 1e-10
    assert merged.fingerprint() == target.fingerprint() != tiny().fingerprint()


def test_fingerprints_tell_adapters_and_bases_apart(tmp_path: Path) -> None:
    lora.save(shaken(lora.add(tiny()), seed=1), tmp_path / "one")
    lora.save(shaken(lora.add(tiny()), seed=2), tmp_path / "two")
    one, two = (lora.attach(tiny(), tmp_path / name) for name in ("one", "two"))
    elsewhere = lora.attach(tiny(seed=5), tmp_path / "one")
    assert len({target.fingerprint() for target in (tiny(), one, two, elsewhere)}) == 4
    assert lora.attach(tiny(), tmp_path / "one").fingerprint() == one.fingerprint()


def test_an_adapter_is_saved_and_comes_back_the_same(tmp_path: Path) -> None:
    target, tokens_BT = shaken(lora.add(tiny())), ragged.tokens()
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "old.txt").write_text("of an earlier run")
    lora.save(target, tmp_path / "adapter")
    assert sorted(contents(tmp_path / "adapter")) == ["README.md", "adapter_config.json", "adapter_model.safetensors"]
    assert [path.name for path in tmp_path.iterdir()] == ["adapter"]
    written = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert written["base_model_name_or_path"] == "tiny-llama"
    again = lora.attach(tiny(), tmp_path / "adapter")
    assert torch.equal(ragged.plain_logits(again, tokens_BT), ragged.plain_logits(target, tokens_BT))
    assert again.fingerprint() == target.fingerprint()


def test_half_precision_bases_get_an_adapter_that_comes_back_the_same(tmp_path: Path) -> None:
    target = shaken(lora.add(tiny(dtype="bfloat16")))
    lora.save(target, tmp_path / "adapter")
    again = lora.attach(tiny(dtype="bfloat16"), tmp_path / "adapter")
    assert torch.equal(ragged.plain_logits(again, ragged.tokens()), ragged.plain_logits(target, ragged.tokens()))
    assert again.fingerprint() == target.fingerprint()
    assert lora.attach(tiny(dtype="float32"), tmp_path / "adapter").fingerprint() != tiny().fingerprint()


def test_weights_travel_through_a_checkpoint() -> None:
    target, tokens_BT = shaken(lora.add(tiny())), ragged.tokens()
    state, wanted = lora.adapter_state(target), ragged.plain_logits(target, tokens_BT)
    shaken(target, seed=9)
    assert not torch.equal(ragged.plain_logits(target, tokens_BT), wanted)
    lora.load_adapter_state(target, state)
    assert torch.equal(ragged.plain_logits(target, tokens_BT), wanted)
    assert all(weight.requires_grad for name, weight in target.model.named_parameters() if "lora_" in name)
    with pytest.raises(errors.MismatchError, match="weights do not fit, such as"):
        lora.load_adapter_state(lora.add(tiny(), LoraSettings(rank=2)), state)
    with pytest.raises(errors.MismatchError, match="1 weights do not fit"):
        lora.load_adapter_state(target, {key: state[key] for key in list(state)[1:]})


def test_an_adapter_can_be_switched_off_for_a_while() -> None:
    target, tokens_BT = shaken(lora.add(tiny())), ragged.tokens()
    tuned, base = ragged.plain_logits(target, tokens_BT), ragged.plain_logits(tiny(), tokens_BT)
    with lora.without(target) as bare:
        assert torch.equal(ragged.plain_logits(bare, tokens_BT), base)
        assert ragged.difference(ragged.walk(bare.runner(), tokens_BT), base, 1) < 1e-10
        assert bare.fingerprint() == target.fingerprint()
    assert torch.equal(ragged.plain_logits(target, tokens_BT), tuned)


def test_an_adapter_of_another_width_is_refused(tmp_path: Path) -> None:
    lora.save(lora.add(tiny(hidden_size=64)), tmp_path / "wide")
    with pytest.raises(errors.TargetError, match=r"wide': .*; give an adapter that was trained on 'tiny-llama'"):
        lora.attach(tiny(), tmp_path / "wide")


def test_an_adapter_of_a_deeper_model_is_refused(tmp_path: Path) -> None:
    lora.save(lora.add(tiny(num_hidden_layers=2)), tmp_path / "shallow")
    with pytest.raises(errors.TargetError, match="shallow': weights are missing in it; give an adapter"):
        lora.attach(tiny(), tmp_path / "shallow")
    lora.save(lora.add(tiny(num_hidden_layers=6)), tmp_path / "deep")
    with pytest.raises(errors.TargetError, match="deep': it holds weights that the model has no place for"):
        lora.attach(tiny(), tmp_path / "deep")


def test_an_adapter_that_adds_positions_is_refused(tmp_path: Path) -> None:
    import peft

    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    peft.get_peft_model(tiny(dtype="float32").model, config).save_pretrained(str(tmp_path))
    with pytest.raises(errors.TargetError, match="of the kind PROMPT_TUNING, which does not live in the weights alone"):
        lora.attach(tiny(), tmp_path)


def test_two_adapters_are_refused() -> None:
    with pytest.raises(errors.TargetError, match="'tiny-llama' already has one; merge it first"):
        lora.add(lora.add(tiny()))
    with pytest.raises(errors.TargetError, match="saving an adapter: 'tiny-llama' has none"):
        lora.save(tiny(), "anywhere")


def test_no_adapter_there(tmp_path: Path) -> None:
    with pytest.raises(errors.TargetError, match=r"attaching the adapter '.*nowhere'"):
        lora.attach(tiny(), tmp_path / "nowhere")
