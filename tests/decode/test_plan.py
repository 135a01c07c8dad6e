"""K is chosen by cost and by how drafts fared, and changes no text."""

from __future__ import annotations

import pytest

from draftune.decode.cost import Costs
from draftune.decode.loop import DecodeConfig, Decoder
from draftune.decode.plain import PlainDecoder
from draftune.decode.plan import EVERY, PROBE, Plan
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.target.tiny import tiny
from draftune.types import Request, Round


def costs(draft_s: float) -> Costs:
    return Costs(verify_s=(1.0,) * 9, begin_s=0.0, draft_s=draft_s, plain_other_s=0.0, other_s=0.0)


def rounds(num_accepted: int, num_drafted: int) -> list[Round]:
    return [Round(num_drafted=num_drafted, num_accepted=num_accepted, num_emitted=num_accepted + 1)]


def test_what_is_known_beforehand_decides_at_first() -> None:
    assert Plan(costs(0.05), [0.9]).num_drafts == 8
    assert Plan(costs(0.05), [0.9], most=3).num_drafts == 3
    assert Plan(costs(0.5), [0.3]).num_drafts == 0


def test_bad_luck_shortens_and_good_luck_lengthens() -> None:
    plan = Plan(costs(0.1), [0.7])
    before = plan.num_drafts
    for _ in range(50 * EVERY):
        plan.learn(rounds(0, plan.num_drafts or 1))
    assert plan.num_drafts < before
    assert plan.alpha[0] < 0.3
    for _ in range(50 * EVERY):
        plan.learn(rounds(8, 8))
    assert plan.num_drafts == 8


def test_where_drafting_does_not_pay_one_draft_is_tried_now_and_then() -> None:
    plan, chosen = Plan(costs(0.5), [0.3]), []
    for _ in range(2 * PROBE):
        chosen.append(plan.num_drafts)
        plan.learn(rounds(0, plan.num_drafts))
    assert sum(chosen) == 2
    for _ in range(60 * PROBE):
        plan.learn(rounds(plan.num_drafts, plan.num_drafts))
    chosen.clear()
    for _ in range(PROBE // 2):
        chosen.append(plan.num_drafts)
        plan.learn(rounds(plan.num_drafts, plan.num_drafts))
    assert min(chosen) > 0, "the text has become easy"


def test_an_offset_that_was_not_reached_keeps_its_prior() -> None:
    plan = Plan(costs(0.1), [0.7, 0.6])
    plan.learn(rounds(0, 4))
    assert plan.alpha[0] < 0.7
    assert plan.alpha[1:] == [0.6] * 7


@pytest.mark.parametrize("rule", ["auto", "match"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_text_does_not_depend_on_the_plan(temperature: float, rule) -> None:
    target = tiny()
    drafter = DRAFTERS.load("lookup")().build(target.parts(), Vocabulary.full(64))
    requests = [
        Request(id=str(n), prompt=(4, 5, 6 + n), max_new_tokens=60, temperature=temperature, seed=3) for n in range(2)
    ]
    wanted = [one.tokens for one in PlainDecoder(target.runner()).generate(requests)]
    plan = Plan(costs(0.2), [0.5], most=4)
    decoder = Decoder(target.runner(), drafter, DecodeConfig(num_drafts=4, rule=rule), plan=plan)
    done = decoder.generate(requests)
    assert [one.tokens for one in done] == wanted
    widths = {round_.num_drafted for one in done for round_ in one.rounds}
    assert len(widths) > 1, "K changed on the way"


def test_a_plan_that_never_drafts_is_plain_decoding() -> None:
    target = tiny()
    drafter = DRAFTERS.load("semiar-gru")().build(target.parts(), Vocabulary.full(64))
    request = Request(id="a", prompt=(4, 5, 6), max_new_tokens=20)
    (done,) = Decoder(target.runner(), drafter, plan=Plan(costs(9.0), [0.1])).generate([request])
    assert done.tokens == PlainDecoder(target.runner()).generate([request])[0].tokens
    assert all(round_.num_drafted == 0 for round_ in done.rounds)
