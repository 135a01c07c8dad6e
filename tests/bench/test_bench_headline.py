"""The sentence says what the figures say."""

import dataclasses

from draftune.bench import headline
from tests.bench import made_report


def test_sentence_names_the_fastest():
    sentence = headline.sentence(made_report.report())
    assert sentence == "semiar-lstm answers sql 1.9 times faster, identical tokens on 1 of 2 prompts."


def test_a_slower_drafter_is_not_called_faster():
    report = made_report.report()
    slow = dataclasses.replace(report, drafted={"medusa": report.drafted["medusa"]}, task="builtin:sql")
    assert headline.sentence(slow).startswith("medusa answers sql at 0.89 times the speed of plain decoding, ")


def test_about_equal():
    report = made_report.report()
    even = dataclasses.replace(report.drafted["medusa"], speedup_total=made_report.ratio(1.01), identity=None)
    sentence = headline.sentence(dataclasses.replace(report, drafted={"medusa": even}))
    assert sentence == "medusa answers sql no faster and no slower than plain decoding, by the same law."


def test_no_drafter():
    sentence = headline.sentence(made_report.report(drafted={}))
    assert sentence == "Plain decoding answers sql at 17.5 tokens per second."


def test_figures():
    found = headline.figures(made_report.report())
    assert found["drafter"] == "semiar-lstm"
    assert (found["speedup_total"], found["speedup_decode"]) == (1.9, 2.08)
    assert (found["num_identical"], found["num_prompts"]) == (1, 2)
    assert (found["score_base"], found["score_tuned"], found["score_joint"]) == (0.1, 0.5, 0.55)
    assert "drafter" not in headline.figures(made_report.report(drafted={}))
