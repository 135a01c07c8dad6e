"""The learned tokens are exactly the answer and its end mark, in every family's template."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftune import errors
from draftune.data import template
from draftune.types import Example, Message, Row
from tests.data import families
from tests.data.families import FAMILIES

ANSWERS = (
    "The answer is 42.",
    "SELECT name FROM ships WHERE speed > 20",
    "Two lines.\n\nYes, three\n",
    " a space before and after ",
    "naïve café 日本 🚢",
    "user assistant model system [INST] <tag>",
)


def row(*contents: str, system: str = "") -> Row:
    """A row of alternating turns, the user's first."""
    roles = ("user", "assistant")
    turns = [Message(role=roles[i % 2], content=content) for i, content in enumerate(contents)]  # type: ignore[arg-type]
    first = [Message(role="system", content=system)] if system else []
    return Row(id="rows.jsonl:7", messages=(*first, *turns))


def learned(example: Example) -> list[int]:
    return [token for token, mark in zip(example.tokens, example.learned, strict=True) if mark]


def by_offsets(one: Row, tokenizer: Any) -> list[bool]:
    """An independent mask: tokens that lie between the last answer's first letter and the end of its end mark."""
    turns = [{"role": message.role, "content": message.content} for message in one.messages]
    text = tokenizer.apply_chat_template(turns, tokenize=False, enable_thinking=False)
    start = text.rindex(one.answer.strip())
    marks = "|".join(map(re.escape, families.SPECIAL))
    end = re.compile(marks).search(text, start)
    assert end
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return [start < last and last <= end.end() and last > first for first, last in offsets]


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("name", FAMILIES)
def test_the_answer_and_its_end_are_learned(name: str, answer: str) -> None:
    tokenizer, family = families.tokenizer(name), FAMILIES[name]
    one = row("What is the speed?", answer)
    example = template.encode(one, tokenizer, max_length=500)
    ids = learned(example)
    assert tokenizer.convert_ids_to_tokens(ids[-1]) == family.end
    assert tokenizer.decode(ids[:-1]).strip() == answer.strip()
    assert list(example.tokens[: example.prompt_length]) == template.encode_prompt(one.prompt, tokenizer)
    assert all(example.learned[example.prompt_length :]), "one span, to the very end"


@pytest.mark.parametrize("name", FAMILIES)
def test_the_mask_agrees_with_character_offsets(name: str) -> None:
    tokenizer = families.tokenizer(name)
    one = row("What is the answer?", "The answer is 42, and yes.")
    example = template.encode(one, tokenizer, max_length=500)
    expected = by_offsets(one, tokenizer)[: len(example.tokens)]
    if FAMILIES[name].pieces:  # the space before the answer is the answer's, as generation has to say it
        expected = [now or later for now, later in zip(expected, [*expected[1:], False], strict=True)]
        expected[: example.prompt_length] = [False] * example.prompt_length
    assert list(example.learned) == expected


@pytest.mark.parametrize("name", FAMILIES)
def test_the_tokens_are_those_of_the_tokenizer_itself(name: str) -> None:
    """Nothing is added or lost against `apply_chat_template`, but for what stands after the last end mark."""
    tokenizer = families.tokenizer(name)
    one = row("What is the speed?", "yes it is", "and the ship?", "The ship is 42")
    turns = [{"role": message.role, "content": message.content} for message in one.messages]
    plain = tokenizer.apply_chat_template(turns, enable_thinking=False)["input_ids"]
    example = template.encode(one, tokenizer, max_length=500)
    assert list(example.tokens) == plain[: len(example.tokens)]
    assert len(plain) - len(example.tokens) <= 2


@pytest.mark.parametrize("name", FAMILIES)
def test_earlier_answers_are_learned_where_the_template_keeps_them(name: str) -> None:
    tokenizer, family = families.tokenizer(name), FAMILIES[name]
    one = row("What is it?", "first", "And then?", "second")
    example = template.encode(one, tokenizer, max_length=500)
    said = tokenizer.decode(learned(example)).replace(" ", "")
    assert said == (f"first{family.end}second{family.end}" if family.keeps_earlier else f"second{family.end}")
    start = len(template.encode_prompt(one.prompt, tokenizer))
    assert list(example.tokens[:start]) == template.encode_prompt(one.prompt, tokenizer)
    assert all(example.learned[start:])
    assert not example.learned[start - 1]


@pytest.mark.parametrize("name", FAMILIES)
def test_end_tokens(name: str) -> None:
    tokenizer = families.tokenizer(name)
    assert set(tokenizer.convert_ids_to_tokens(sorted(template.end_tokens(tokenizer)))) == FAMILIES[name].ends


def test_a_blank_token_ends_nothing() -> None:
    """Some tokenizers have runs of spaces or newlines among their added tokens."""
    tokenizer = families.tokenizer("chatml", families.CHATML.replace("'content'] + '", "'content'] + '\n"))
    tokenizer.add_tokens(["\n"])
    assert tokenizer.convert_ids_to_tokens(list(template.end_tokens(tokenizer))) == ["<|im_end|>"]
    example = template.encode(row("What?", "yes"), tokenizer, max_length=500)
    assert tokenizer.decode(learned(example)) == "yes\n<|im_end|>"


def test_end_tokens_without_a_template() -> None:
    tokenizer = families.tokenizer("chatml")
    tokenizer.chat_template = None
    assert template.end_tokens(tokenizer) == {tokenizer.convert_tokens_to_ids("<|im_end|>")}


def test_the_newline_after_the_end_is_not_kept() -> None:
    tokenizer = families.tokenizer("chatml")
    example = template.encode(row("What?", "yes"), tokenizer, max_length=500)
    assert tokenizer.decode(example.tokens).endswith("assistant\nyes<|im_end|>")


def test_the_default_system_message_is_part_of_the_prompt() -> None:
    tokenizer = families.tokenizer("chatml")
    without = template.encode(row("What?", "yes"), tokenizer, max_length=500)
    own = template.encode(row("What?", "yes", system="Be short."), tokenizer, max_length=500)
    assert tokenizer.decode(without.tokens).startswith("<|im_start|>system\nYou are a helpful assistant<|im_end|>")
    assert tokenizer.decode(own.tokens).startswith("<|im_start|>system\nBe short.<|im_end|>")
    assert learned(without) == learned(own)


def merges_over_the_border(one: Row, tokenizer: Any) -> bool:
    """True where the whole row, encoded at once, does not begin with the prompt's tokens: else a test shows nothing."""
    turns = [{"role": message.role, "content": message.content} for message in one.messages]
    prompt = template.encode_prompt(one.prompt, tokenizer)
    return tokenizer.apply_chat_template(turns)["input_ids"][: len(prompt)] != prompt


def test_a_border_that_the_tokenizer_merges_over() -> None:
    """Generation starts after "assistant\\n", so the answer's own newlines are apart from it."""
    tokenizer = families.tokenizer("chatml")
    one = row("What?", "\n\nYes")
    assert merges_over_the_border(one, tokenizer)
    prompt = template.encode_prompt(one.prompt, tokenizer)
    example = template.encode(one, tokenizer, max_length=500)
    assert list(example.tokens[: len(prompt)]) == prompt
    assert tokenizer.decode(learned(example)) == "\n\nYes<|im_end|>"


def test_a_border_merged_over_by_sentencepiece() -> None:
    """The answer encoded apart would get a space in front, which decoding hides."""
    tokenizer = families.tokenizer("gemma")
    one = row("What?", "SELECT name")
    assert merges_over_the_border(one, tokenizer)
    ids = learned(template.encode(one, tokenizer, max_length=500))
    assert "".join(tokenizer.convert_ids_to_tokens(ids)) == "SELECT▁name<end_of_turn>"


@pytest.mark.parametrize("name", ["chatml", "mistral", "gemma"])
@settings(max_examples=40, deadline=None)
@given(answer=st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n \t")))
def test_any_answer_is_learned_or_refused(name: str, answer: str) -> None:
    tokenizer = families.tokenizer(name)
    one = row("What is it?", answer)
    try:
        example = template.encode(one, tokenizer, max_length=2000)
    except errors.DataError:
        assert not answer.strip() or "▁" in answer  # SentencePiece cannot tell this letter from a space
        return
    assert tokenizer.decode(learned(example)[:-1]).strip() == answer.strip() or "▁" in answer
    assert list(example.tokens[: example.prompt_length]) == template.encode_prompt(one.prompt, tokenizer)


def refusal(one: Row, tokenizer: Any, max_length: int = 500) -> str:
    with pytest.raises(errors.DataError) as caught:
        template.encode(one, tokenizer, max_length=max_length)
    return str(caught.value)


def test_no_chat_template() -> None:
    tokenizer = families.tokenizer("chatml")
    tokenizer.chat_template = None
    tokenizer.name_or_path = "my-base-model"
    assert refusal(row("What?", "yes"), tokenizer) == (
        "reading the chat template of my-base-model: it has none, so a conversation cannot become tokens; "
        "set tokenizer.chat_template, or take the instruct model."
    )


def test_a_template_that_ends_no_answer() -> None:
    tokenizer = families.tokenizer("chatml", families.NO_MARKS)
    assert refusal(row("What?", "yes"), tokenizer) == (
        "reading the chat template of the tokenizer: it puts no special token after an answer, so nothing would teach "
        "the model to stop; write the end-of-text token after the assistant's turn."
    )


def test_a_template_that_never_shows_the_answer() -> None:
    tokenizer = families.tokenizer("chatml", "{% for message in messages %}{{ message['role'] }}</s>{% endfor %}")
    assert "puts no special token after an answer" in refusal(row("What?", "yes"), tokenizer)


def test_a_template_without_a_generation_prompt() -> None:
    tokenizer = families.tokenizer("chatml", families.CHATML.split("{% if add_generation_prompt")[0])
    assert refusal(row("What?", "yes"), tokenizer) == (
        "encoding row rows.jsonl:7: the tokens to learn read '<|im_start|>assistant\\nyes' where the answer is 'yes'; "
        "remove end marks and thinking from the answer, or take another chat template."
    )


def test_a_template_that_opens_a_thought_by_itself() -> None:
    tokenizer = families.tokenizer("chatml", families.ALWAYS_THINKING)
    assert "the chat template writes the prompt otherwise once the answer follows" in refusal(row("?", "y"), tokenizer)


def test_an_answer_with_its_own_thinking() -> None:
    """Tuned and served without thinking: a row that thinks would be learned from a prompt that never comes."""
    sentence = refusal(row("What?", "<think>\nhm\n</think>\n\nyes"), families.tokenizer("qwen3"))
    assert sentence == (
        "encoding row rows.jsonl:7: the chat template writes the prompt otherwise once the answer follows; "
        "remove thinking or marks from the answer, or take a template whose prompt stays as it is."
    )


@pytest.mark.parametrize("answer", ["yes<|im_end|>", "yes<|im_end|>\n<|im_start|>user\nmore", "<|im_end|>"])
def test_an_answer_that_holds_an_end_mark(answer: str) -> None:
    assert "the tokens to learn read" in refusal(row("What?", answer), families.tokenizer("chatml"))


@pytest.mark.parametrize(
    "one", [row("What?"), row("What?", "  \n"), row("What?", "yes", "and?")], ids=["none", "blank", "user last"]
)
def test_nothing_to_learn(one: Row) -> None:
    assert refusal(one, families.tokenizer("chatml")) == (
        "encoding row rows.jsonl:7: its last turn is no answer, so nothing can be learned; "
        "give each row an answer, or remove it."
    )


def test_turns_that_a_template_refuses() -> None:
    assert refusal(row("What?", "yes", system="Be short."), families.tokenizer("gemma")) == (
        "encoding row rows.jsonl:7: the chat template refuses the turns system, user (System role not supported); "
        "give turns it knows; a system text can stand in the first user message."
    )
    assistant_only = Row(id="a", messages=(Message(role="assistant", content="yes"),))
    assert "the chat template refuses the turns nothing" in refusal(assistant_only, families.tokenizer("chatml"))


def test_an_answer_longer_than_the_context() -> None:
    tokenizer = families.tokenizer("chatml")
    one = row("What?", "The answer is 42. " * 20)
    num_answer = len(tokenizer("The answer is 42. " * 20)["input_ids"]) + 1
    assert refusal(one, tokenizer, max_length=30) == (
        f"encoding row rows.jsonl:7: its answer alone has {num_answer} tokens where the context holds 30; "
        "raise max_length, or shorten or remove the row."
    )


def test_a_row_longer_than_the_context_is_never_cut() -> None:
    tokenizer = families.tokenizer("chatml")
    one = row("What is the speed of the ship? " * 9, "yes")
    length = len(template.encode(one, tokenizer, max_length=500).tokens)
    assert len(template.encode(one, tokenizer, max_length=length).tokens) == length
    assert refusal(one, tokenizer, max_length=length - 1) == (
        f"encoding row rows.jsonl:7: it has {length} tokens, 2 of them the answer's, where the context holds "
        f"{length - 1}; raise max_length, or shorten or remove the row."
    )


def test_a_tokenizer_that_drops_capitals() -> None:
    tokenizer = families.lowering()
    example = template.encode(row("What?", "YES it is"), tokenizer, max_length=500)
    assert tokenizer.decode(learned(example)) == "yes it is<|im_end|>"
