"""Reports go to JSON and come back, without rows' text unless asked."""

import dataclasses
import json

import pytest

from draftune import errors
from draftune.bench import record
from draftune.bench.record import Report, Seconds
from tests.bench import made_report


def test_a_report_comes_back_equal():
    report = made_report.report()
    assert Report.from_json(report.to_json(include_text=True)) == report


def test_without_asking_no_text_is_kept():
    report = made_report.report()
    text = report.to_json()
    assert "alert" not in text
    assert "SELECT" not in text
    assert Report.from_json(text) == dataclasses.replace(report, answers=())


def test_the_json_is_made_of_lines_that_can_be_compared():
    text = made_report.report().to_json()
    assert json.loads(text)["drafted"]["medusa"]["acceptance"]["histogram"] == [30, 8, 1, 1]
    assert max(map(len, text.splitlines())) <= record.LINE + 40
    assert len(text.splitlines()) < 80


def test_not_a_number_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        made_report.report(seconds=float("nan")).to_json()


def test_seconds_add_up():
    spent = Seconds(prefill=1, draft=2, verify=3, other=4) + Seconds(prefill=0.5)
    assert (spent.decode, spent.total) == (9, 10.5)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": 99}, "format 99 where 1 is understood"),
        ({"spede": 1}, "unknown setting 'spede'; did you mean 'seconds'?"),
        ({"plain": {"name": "plain"}}, "plain"),
        ({"seconds": "long"}, "'long' does not fit"),
    ],
)
def test_a_wrong_report_is_refused_with_its_fault(change, sentence):
    data = made_report.report().to_dict() | change
    with pytest.raises(errors.ConfigError, match="reading a benchmark report") as caught:
        Report.from_dict(data)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(("text", "sentence"), [('{"a":\n oops', "no JSON (line 2)"), ("[1]", "a list")])
def test_no_report_at_all(text, sentence):
    with pytest.raises(errors.DataError) as caught:
        Report.from_json(text)
    assert sentence in str(caught.value)
