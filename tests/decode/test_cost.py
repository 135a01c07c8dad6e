"""How many tokens to draft, by what a round costs and yields."""

from __future__ import annotations

import re

import pytest

from draftune import errors
from draftune.decode import cost
from draftune.decode.calibrate import calibrate
from draftune.decode.cost import Costs
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.target.tiny import tiny
from tests.conftest import ROOT

FLAT = Costs(verify_s=(1.0,) * 9, begin_s=0.0, draft_s=0.0, plain_other_s=0.0, other_s=0.0)


def test_tokens_of_a_round() -> None:
    assert cost.expected_tokens([0.5, 0.5], 0) == 1
    assert cost.expected_tokens([0.5, 0.5], 2) == 1 + 0.5 + 0.25
    assert cost.expected_tokens([0.5], 3) == 1 + 0.5 + 0.25 + 0.125, "the last known offset goes on"
    assert cost.expected_tokens([], 3) == 1


def test_free_drafts_are_drafted_as_far_as_they_go() -> None:
    assert cost.best_num_drafts(FLAT, [0.9]) == 8
    assert cost.best_num_drafts(FLAT, [0.9], most=3) == 3
    assert cost.speedup(FLAT, [1.0], 4) == 5


def test_dear_drafts_are_few_or_none() -> None:
    dear = Costs(verify_s=(1.0,) * 9, begin_s=0.0, draft_s=0.3, plain_other_s=0.0, other_s=0.0)
    assert cost.best_num_drafts(dear, [0.8, 0.3, 0.2]) == 1
    assert cost.best_num_drafts(dear, [0.2]) == 0
    steep = Costs(verify_s=tuple(map(float, range(1, 10))), begin_s=0.0, draft_s=0.0, plain_other_s=0.0, other_s=0.0)
    assert cost.best_num_drafts(steep, [0.99]) == 0, "a verify that costs as much as its tokens"


def test_the_prediction_follows_the_formula() -> None:
    costs = Costs(verify_s=(10.0, 11.0, 12.0), begin_s=0.5, draft_s=0.25, plain_other_s=1.0, other_s=2.0)
    assert cost.speedup(costs, [0.5, 0.5], 2) == pytest.approx(1.75 * 11 / (12 + 0.5 + 0.5 + 2))


@pytest.mark.parametrize(("name", "most"), [("semiar-gru", 4), ("medusa", 8), ("lookup", 1)])
def test_a_machine_is_calibrated(name: str, most: int) -> None:
    target = tiny()
    drafter = DRAFTERS.load(name)().build(target.parts(), Vocabulary.full(64)).eval()
    costs = calibrate(target.runner(), drafter, num_rows=2, length=16, most=most)
    assert costs.most == (most if drafter.max_drafts is None else min(most, drafter.max_drafts))
    assert all(seconds > 0 for seconds in costs.verify_s)
    assert min(costs.begin_s, costs.draft_s, costs.other_s, costs.plain_other_s) >= 0
    assert costs.round_s(1) > costs.verify_s[1]


def test_a_context_too_short_to_calibrate_in() -> None:
    target = tiny(max_position_embeddings=64)
    drafter = DRAFTERS.load("lookup")().build(target.parts(), Vocabulary.full(64))
    with pytest.raises(errors.ConfigError, match="a context of 64 tokens where 161 are needed; give a smaller length"):
        calibrate(target.runner(), drafter)


def test_the_python_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(code, "docs/speed.md", "exec"), {})
    num_drafts, speedup = capsys.readouterr().out.split()
    assert 0 <= int(num_drafts) <= 8
    assert float(speedup) > 0
