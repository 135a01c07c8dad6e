"""Every registered drafter, under every rule, gives what plain decoding gives.

Fresh drafters are hardly ever right, so each case also runs with an oracle that makes about half, and all, of the
drafts the target's own.
"""

from __future__ import annotations

import itertools
import random
import secrets
from functools import cache

import pytest
import torch

from draftune import errors
from draftune.decode.loop import DecodeConfig, Decoder
from draftune.decode.plain import PlainDecoder
from draftune.decode.tally import Tally
from draftune.drafters.base import Drafter
from draftune.drafters.table import DRAFTERS
from draftune.drafters.vocabulary import Vocabulary
from draftune.target.target import Target
from draftune.target.tiny import tiny
from draftune.types import Completion, Request
from tests.decode.reference import Helped, Oracle, plain

NAMES = list(DRAFTERS.entries())
HELP = [(0.0, False), (0.5, True), (1.0, False)]  # chance that the oracle draws, whether the vocabulary is trimmed
PROMPTS = ((5, 6, 7), (9, 8, 7, 6, 5, 9, 8), (4,))


@cache
def target(vocab_size: int = 64) -> Target:
    return tiny("llama", vocab_size=vocab_size)


@cache
def drafter(name: str, vocab_size: int, trimmed: bool) -> Drafter:
    torch.manual_seed(0)
    kept = torch.arange(0, vocab_size, 2) if trimmed else torch.arange(vocab_size)
    built = DRAFTERS.load(name)().build(target(vocab_size).parts(), Vocabulary(kept, vocab_size))
    for parameter in built.parameters():  # fresh heads often start as zeros, which would hide what they read
        torch.nn.init.normal_(parameter, std=0.3)
    return built.eval()


@cache
def expected(request: Request) -> list[int]:
    return plain(target(), request, detokenize)


def detokenize(tokens) -> str:
    return target().tokenizer.decode(list(tokens))


def oracle_of(requests: list[Request]) -> Oracle:
    """Knows the text that plain decoding gives; a lost row gets any token."""

    def oracle(row: int, emitted) -> torch.Tensor:
        text = expected(requests[row])
        logits = torch.zeros(target().shape.vocab_size)
        logits[text[len(emitted)] if len(emitted) < len(text) else 0] = 1e4
        return logits

    return oracle


def decode(name: str, requests: list[Request], rule: str, chance: float, trimmed: bool = False) -> list[Completion]:
    helped = Helped(drafter(name, 64, trimmed), oracle_of(requests), chance)
    return Decoder(target().runner(), helped, DecodeConfig(num_drafts=3, rule=rule), detokenize).generate(requests)  # type: ignore[arg-type]


def batch(temperature: float, **settings) -> list[Request]:
    """Three rows of different lengths, their limits different too."""
    return [
        Request(
            id=f"row/{number}",
            prompt=prompt,
            max_new_tokens=14 + 3 * number,
            temperature=temperature,
            seed=number if temperature else None,
            **settings,
        )
        for number, prompt in enumerate(PROMPTS)
    ]


def stopping(requests: list[Request], **kind) -> list[Request]:
    """The same requests, ended by something that plain decoding meets at its seventh token."""
    ended = []
    for request in requests:
        token = expected(request)[6]
        stop = {"stop_tokens": frozenset({token})} if "tokens" in kind else {"stop_strings": (detokenize([token]),)}
        ended.append(Request(**{**vars(request), **stop}))
    return ended


CASES = {
    "greedy": lambda: batch(0.0),
    "sampled": lambda: batch(0.9),
    "stop token inside a block": lambda: stopping(batch(0.0), tokens=True),
    "stop string inside a block": lambda: stopping(batch(0.0), strings=True),
    "sampled stop": lambda: stopping(batch(0.9), tokens=True),
    "no round": lambda: [Request(id="a", prompt=(5, 6), max_new_tokens=1)],
    "budget 0": lambda: [Request(id="a", prompt=(5, 6), max_new_tokens=2)],
    "budget 1": lambda: [Request(id="a", prompt=(5, 6), max_new_tokens=3)],
    "prompt of one token": lambda: [Request(id="a", prompt=(4,), max_new_tokens=12)],
    "hot and cold rows together": lambda: [*batch(0.0)[:1], *batch(1.3)[1:]],
}


SAMPLED = {"sampled", "sampled stop", "hot and cold rows together"}  # under rejection these are tested by their law
MATRIX = [(rule, case) for case in CASES for rule in ("match", "rejection") if rule == "match" or case not in SAMPLED]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("rule", "case"), MATRIX)
def test_ids_equal_plain_decoding(name: str, case: str, rule: str) -> None:
    requests = CASES[case]()
    for chance, trimmed in HELP:
        completions = decode(name, requests, rule, chance, trimmed)
        assert [list(completion.tokens) for completion in completions] == [expected(r) for r in requests]
        if chance == 1.0:
            assert all_stood(completions)


def all_stood(completions: list[Completion]) -> bool:
    return all(round_.num_accepted == round_.num_drafted for c in completions for round_ in c.rounds)


def test_the_helped_cases_accept_drafts() -> None:
    tally = Tally.of(decode("semiar-lstm", batch(0.0), "match", 0.5, trimmed=True))
    assert 0.1 < tally.acceptance_rate < 0.9
    assert Tally.of(decode("semiar-lstm", batch(0.0), "match", 1.0)).tau > 3


@pytest.mark.parametrize("case", ["greedy", "sampled", "stop token inside a block", "hot and cold rows together"])
def test_the_plain_decoder_equals_the_reference(case: str) -> None:
    requests = CASES[case]()
    completions = PlainDecoder(target().runner(), detokenize).generate(requests)
    assert [list(completion.tokens) for completion in completions] == [expected(r) for r in requests]


# Sampled rejection: the law. Vocabulary 8, three tokens, every continuation's probability known exactly.

SMALL, LENGTH, TRIALS = 8, 3, 1500


@cache
def small_logits() -> dict[tuple[int, ...], torch.Tensor]:
    known = {}
    for length in range(LENGTH + 2):
        texts = list(itertools.product(range(SMALL), repeat=length))
        with torch.inference_mode():
            logits = target(SMALL).model(input_ids=torch.tensor([[5, 6, *text] for text in texts])).logits[:, -1]
        known.update(zip(texts, logits, strict=True))
    return known


@cache
def small_law() -> torch.Tensor:
    """[8,8,8] probabilities of the three tokens at temperature 1.5."""
    law = torch.zeros([SMALL] * LENGTH, dtype=torch.float64)
    for text in itertools.product(range(SMALL), repeat=LENGTH):
        parts = [torch.softmax(small_logits()[text[:n]] / 1.5, dim=-1)[text[n]] for n in range(LENGTH)]
        law[text] = torch.stack(parts).prod()
    return law


def chi_square_z(observed: torch.Tensor, law: torch.Tensor) -> float:
    """How many standard deviations the chi-square statistic lies above its mean; rare cells are pooled."""
    expected_counts = law.flatten() * observed.sum()
    common = expected_counts >= 5
    pooled = [torch.cat([x[common], x[~common].sum()[None]]) for x in (observed.flatten(), expected_counts)]
    freedom = len(pooled[0]) - 1
    statistic = float(((pooled[0] - pooled[1]) ** 2 / pooled[1].clamp(min=1e-12)).sum())
    return (statistic - freedom) / (2 * freedom) ** 0.5


@pytest.mark.parametrize(("chance", "trimmed"), HELP)
@pytest.mark.parametrize("name", NAMES)
def test_sampled_rejection_has_the_law_of_the_target(
    name: str, chance: float, trimmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "randbits", random.Random(0).getrandbits)  # rows without a seed, the same every time

    def oracle(row: int, emitted) -> torch.Tensor:
        return small_logits()[tuple(emitted)]

    inner = drafter(name, SMALL, trimmed)
    helped = Helped(inner, oracle, chance) if chance else inner
    requests = [Request(id=str(n), prompt=(5, 6), max_new_tokens=LENGTH + 1, temperature=1.5) for n in range(TRIALS)]
    decoder = Decoder(target(SMALL).runner(), helped, DecodeConfig(num_drafts=2, rule="rejection"))
    observed = torch.zeros([SMALL] * LENGTH, dtype=torch.float64)
    for completion in decoder.generate(requests):
        observed[completion.tokens[:LENGTH]] += 1
    assert chi_square_z(observed.sum(-1), small_law().sum(-1)) < 4
    assert chi_square_z(observed.sum(0), small_law().sum(0)) < 4


@pytest.mark.parametrize("seeded", [False, True])
def test_plain_sampling_has_the_law_of_the_target(seeded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "randbits", random.Random(0).getrandbits)
    requests = [
        Request(id=str(n), prompt=(5, 6), max_new_tokens=LENGTH, temperature=1.5, seed=n if seeded else None)
        for n in range(TRIALS)
    ]
    observed = torch.zeros([SMALL] * LENGTH, dtype=torch.float64)
    for completion in PlainDecoder(target(SMALL).runner()).generate(requests):
        observed[completion.tokens] += 1
    assert chi_square_z(observed.sum(-1), small_law().sum(-1)) < 4
    assert chi_square_z(observed.sum(0), small_law().sum(0)) < 4


def test_a_seeded_text_is_never_left_to_rejection() -> None:
    with pytest.raises(errors.ConfigError, match="a seeded text is made by 'match'; leave out the seed, or the rule"):
        decode("semiar-gru", batch(0.9), "rejection", 0.0)
