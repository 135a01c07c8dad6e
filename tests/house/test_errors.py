"""Errors are one sentence of three parts, and cross a process border whole."""

from __future__ import annotations

import pickle

import pytest

from draftune import errors

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.DraftuneError)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_one_sentence_and_pickles(kind: type[errors.DraftuneError]) -> None:
    error = kind(doing="reading rows.jsonl", met="line 3 is not JSON", todo="fix or remove it")
    again = pickle.loads(pickle.dumps(error))
    assert str(error) == str(again) == "reading rows.jsonl: line 3 is not JSON; fix or remove it."
    assert type(again) is kind
    assert (again.doing, again.met, again.todo) == (error.doing, error.met, error.todo)
