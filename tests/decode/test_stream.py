"""What is shown is never withdrawn, and nothing beyond a stop is shown."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from draftune.decode.stops import cut
from draftune.decode.stream import TextStream


def detokenize(tokens: Sequence[int]) -> str:
    return bytes(tokens).decode("utf-8", errors="replace")


def until_a_stop(text: str, stops: Sequence[str]) -> str:
    """What a row emits: it ends with the first stop string that is complete, though a longer one may have begun."""
    ends = (end for end in range(len(text) + 1) if any(stop in text[:end] for stop in stops))
    return text[: next(ends, len(text))]


@given(
    text=st.text(alphabet="abé€😀\n", max_size=30),
    stops=st.lists(st.text(alphabet="abé€\n", min_size=1, max_size=4), max_size=3),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=40),
)
@example(text="éaa", stops=["a", "éaa"], sizes=[3])
def test_pieces_join_to_the_text_before_the_first_stop(text: str, stops: list[str], sizes: list[int]) -> None:
    text = until_a_stop(text, stops)
    stream, tokens, shown = TextStream(detokenize, stops), list(text.encode()), ""
    for size in [*sizes, len(tokens) + 1]:
        shown += stream.push(tokens[:size])
        tokens = tokens[size:]
        assert cut(text, stops).startswith(shown)
    assert shown + stream.finish() == cut(text, stops)


def test_an_unfinished_character_is_held_back() -> None:
    stream, euro = TextStream(detokenize), "€".encode()
    assert [stream.push([byte]) for byte in euro] == ["", "", "€"]
