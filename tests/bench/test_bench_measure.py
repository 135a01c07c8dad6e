"""From completions to figures, followed by hand."""

import pytest

from draftune.bench import measure
from draftune.bench.record import Difference, Seconds
from draftune.types import Completion, Request, Round


def completion(name: str, tokens: tuple[int, ...], *rounds: tuple[int, int, int]) -> Completion:
    made = [Round(num_drafted=drafted, num_accepted=accepted, num_emitted=n) for drafted, accepted, n in rounds]
    return Completion(id=name, tokens=tokens, text="", finish_reason="stop", rounds=tuple(made))


def test_acceptance_by_hand():
    found = measure.acceptance(
        [completion("a", (1,), (3, 3, 4), (3, 1, 2)), completion("b", (1,), (3, 0, 1), (1, 1, 1))], num_drafts=4
    )
    assert found.tau == pytest.approx((4 + 2 + 1 + 1) / 4)
    assert found.acceptance_rate == pytest.approx(5 / 10)
    assert found.reached == (4, 2, 1, 0)  # the last round drafted one and stopped with it
    assert found.alpha == (3 / 4, 1 / 2, 1.0, None)
    assert found.histogram == (1, 2, 0, 1, 0)


def test_acceptance_of_answers_that_the_prefill_finished():
    found = measure.acceptance([completion("a", (1,))], num_drafts=2)
    assert (found.tau, found.acceptance_rate, found.alpha, found.histogram) == (None, None, (None, None), (0, 0, 0))


@pytest.mark.parametrize(
    ("plain", "drafted", "index"),
    [((1, 2, 3), (1, 2, 4), 2), ((1, 2, 3), (9, 2, 3), 0), ((1, 2, 3), (1, 2), 2), ((1,), (1, 5), 1)],
)
def test_the_first_difference_is_named(plain, drafted, index):
    same = completion("same", (7, 7))
    found = measure.identity([same, completion("odd", plain)], [same, completion("odd", drafted)])
    assert (found.num_identical, found.num_prompts) == (1, 2)
    assert found.differences == (Difference(id="odd", index=index),)


def test_what_the_phases_do_not_cover_is_other():
    before = {"prefill": 1.0, "draft": 2.0, "verify": 3.0, "other": 50.0}
    after = {"prefill": 1.5, "draft": 2.25, "verify": 4.0, "other": 99.0}
    spent = measure.split(before, after, elapsed_s=2.0)
    assert spent == Seconds(prefill=0.5, draft=0.25, verify=1.0, other=0.25)
    assert spent.total == 2.0


def lap(num_tokens: int, prefill: float, verify: float):
    requests = [Request(id="a", prompt=(1, 2, 3))]
    return measure.lap(requests, [completion("a", tuple(range(num_tokens)))], Seconds(prefill=prefill, verify=verify))


def test_decode_only_leaves_out_the_prefill_and_its_token():
    found = measure.rates([lap(11, 1.0, 1.0), lap(21, 1.0, 4.0), lap(31, 1.0, 2.0)])
    assert found.decode_tokens_per_s == pytest.approx(60 / 7)
    assert found.decode_median_tokens_per_s == pytest.approx(10)  # of 10, 5 and 15
    assert found.total_tokens_per_s == pytest.approx(63 / 10)
    assert found.total_median_tokens_per_s == pytest.approx(5.5)  # of 5.5, 4.2 and 10.3


def test_an_answer_of_one_token_has_no_decode_speed():
    found = measure.rates([lap(1, 0.5, 0.0)])
    assert (found.decode_tokens_per_s, found.decode_median_tokens_per_s, found.total_tokens_per_s) == (None, None, 2)
