"""Settings that cannot be honoured are refused, each with a sentence that names it."""

from __future__ import annotations

from typing import Any

import pytest

from draftune import config as configs
from draftune import errors
from draftune.train.config import TrainConfig


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"num_drafts": 0}, "num_drafts = 0; give at least 1"),
        ({"lr_drafter": 0.0}, "lr_drafter = 0.0; give a number above 0"),
        ({"draft_weight": 1.5}, "draft_weight = 1.5; give a share between 0 and 1"),
        ({"decay": 0.0}, "decay = 0.0; give a number above 0"),
        ({"drafter_minutes": -1.0}, "drafter_minutes = -1.0; give a number above 0"),
        ({"eval_max_new_tokens": 1}, "eval_max_new_tokens = 1; give at least 2"),
        ({"drafters": ("medusa", "medusa")}, "drafters = medusa, medusa; name each drafter once"),
        ({"drafter_settings": {"semiar-lst": {}}}, "did you mean 'semiar-lstm'"),
        ({"mode": "joint", "drafters": ()}, "drafters = none; train exactly one drafter in mode 'joint'"),
        ({"mode": "joint", "draft_weight": 1.0}, "weigh both losses of mode 'joint'"),
        ({"mode": "joint", "adapter_epochs": 0}, "use mode 'after' for a target that is already tuned"),
    ],
)
def test_impossible_settings(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        TrainConfig(**settings)
    assert sentence in str(caught.value)


def test_settings_survive_json_and_words() -> None:
    config = TrainConfig(drafters=("medusa",), vocabulary_size="full", drafter_minutes=2.5)
    assert configs.make(TrainConfig, configs.to_dict(config), doing="reading") == config
    changed = configs.override(config, ["lora.rank=4", "vocabulary_size=100", "mode=joint"], doing="reading")
    assert (changed.lora.rank, changed.vocabulary_size, changed.mode) == (4, 100, "joint")


def test_unknown_setting() -> None:
    with pytest.raises(errors.ConfigError, match="did you mean 'lr_drafter'"):
        configs.make(TrainConfig, {"lr_draftr": 1}, doing="reading")
