"""A chat template: how a conversation becomes tokens, and which of them are the assistant's own.

The mask of learned tokens is found by rendering beginnings of the conversation, so the template needs no
`{% generation %}` marks: what stands between the prompt of a turn (rendered with its generation prompt) and the turn's
end token is what the model itself would have had to say. Every mask is checked: its tokens must read as the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from draftune import errors
from draftune.types import Example, Message, Row

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Thinking models are tuned and served without thinking, by the same rendering; other templates ignore these.
_SETTINGS = {"enable_thinking": False, "thinking": False}
_PROBE = (Message(role="user", content="question"), Message(role="assistant", content="zq"))


class TooLongError(errors.DataError):
    """A row that does not fit the context; nothing of it is cut."""


def encode(row: Row, tokenizer: PreTrainedTokenizerBase, *, max_length: int) -> Example:
    """The tokens of a row up to its last end mark, each answer with its end mark learned.

    Its tokens before the last answer are exactly `encode_prompt(row.prompt)`. Earlier answers are learned too where
    the template leaves them as they were said. Raises DataError naming the row where the mask cannot be right, and
    TooLongError (a DataError) where the row has more than `max_length` tokens.
    """
    return ChatTemplate.of(tokenizer).encode(row, max_length=max_length)


def encode_prompt(messages: Sequence[Message], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The tokens from which generation starts: the messages and the mark that the assistant speaks next."""
    template = ChatTemplate.of(tokenizer)
    return template.tokens(template.render(messages, generation=True))


def end_tokens(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The ids that end an assistant turn: the end-of-text token, and what the template writes after an answer."""
    return ChatTemplate.of(tokenizer).ends if tokenizer.chat_template else _eos(tokenizer)


@dataclass(frozen=True)
class ChatTemplate:
    """A tokenizer's chat template with the tokens that end an assistant turn; made once for many rows."""

    tokenizer: PreTrainedTokenizerBase
    ends: frozenset[int]

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> ChatTemplate:
        """The template of a tokenizer; raises DataError where it has none, or none that ends an answer."""
        doing = f"reading the chat template of {tokenizer.name_or_path or 'the tokenizer'}"
        if not tokenizer.chat_template:
            met = "it has none, so a conversation cannot become tokens"
            raise errors.DataError(doing=doing, met=met, todo="set tokenizer.chat_template, or take the instruct model")
        template = cls(tokenizer, _eos(tokenizer))
        _, found, tail = template.render(_PROBE, doing=doing).rpartition(_PROBE[-1].content)
        added = tokenizer.added_tokens_decoder.items()  # runs of spaces, too, in some tokenizers
        special = set(tokenizer.all_special_ids) | {token for token, entry in added if entry.content.strip()}
        end = next((token for token in template.tokens(tail) if token in special), None)
        if not found or end is None:
            met = "it puts no special token after an answer, so nothing would teach the model to stop"
            raise errors.DataError(doing=doing, met=met, todo="write the end-of-text token after the assistant's turn")
        return cls(tokenizer, template.ends | {end})

    def render(self, messages: Sequence[Message], *, generation: bool = False, doing: str = "") -> str:
        """The text of the messages, with the mark that the assistant speaks next if `generation`."""
        import jinja2

        turns = [{"role": message.role, "content": message.content} for message in messages]
        settings: dict[str, Any] = {"tokenize": False, "add_generation_prompt": generation, **_SETTINGS}
        try:
            return str(self.tokenizer.apply_chat_template(turns, **settings))
        except (jinja2.TemplateError, ValueError) as error:
            roles = ", ".join(message.role for message in messages) or "nothing"
            raise errors.DataError(
                doing=doing or "rendering a conversation",
                met=f"the chat template refuses the turns {roles} ({str(error).rstrip('.')})",
                todo="give turns it knows; a system text can stand in the first user message",
            ) from error

    def tokens(self, text: str) -> list[int]:
        """The token ids of rendered text, nothing added."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def text(self, tokens: Sequence[int]) -> str:
        """What the tokens say, marks and spaces as they are."""
        return str(self.tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False))

    def encode(self, row: Row, *, max_length: int) -> Example:
        """See `draftune.data.template.encode`."""
        doing = f"encoding row {row.id}"
        if not row.answer.strip():
            todo = "give each row an answer, or remove it"
            raise errors.DataError(doing=doing, met="its last turn is no answer, so nothing can be learned", todo=todo)
        prompt_text = self.render(row.prompt, generation=True, doing=doing)
        prompt = self.tokens(prompt_text)
        tokens = self._continue(prompt, prompt_text, self.render(row.messages, doing=doing), doing)
        stop = self._stop(tokens, len(prompt), row.answer, doing)
        learned = [len(prompt) <= i < stop for i in range(stop)]
        for start, end in self._earlier(row, tokens, doing):
            learned[start:end] = [True] * (end - start)
        if stop > max_length:
            raise _too_long(stop - len(prompt), stop, max_length, doing)
        return Example(id=row.id, tokens=tuple(tokens[:stop]), learned=tuple(learned))

    def _continue(self, prompt: list[int], prompt_text: str, text: str, doing: str) -> list[int]:
        """The tokens of `text` that begin with exactly those of the prompt.

        Where the tokenizer would merge across the border ("\\n" + "\\nYes" into one "\\n\\n"), the rest is encoded
        apart: a generation, too, starts from the prompt's own tokens.
        """
        if not text.startswith(prompt_text):
            raise errors.DataError(
                doing=doing,
                met="the chat template writes the prompt otherwise once the answer follows",
                todo="remove thinking or marks from the answer, or take a template whose prompt stays as it is",
            )
        tokens = self.tokens(text)
        if tokens[: len(prompt)] == prompt:
            return tokens
        return prompt + self._apart(text[len(prompt_text) :])

    def _apart(self, rest: str) -> list[int]:
        """The tokens of text that follows other text: SentencePiece would put a space before a text's first word.

        A mark stands in front instead, over which nothing merges, and is taken away again.
        """
        added = self.tokenizer.added_tokens_decoder.items()
        marks = [(token, entry.content) for token, entry in added if entry.special and not entry.rstrip]
        for mark, content in marks:
            tokens = self.tokens(content + rest)
            if tokens[:1] == [mark]:
                return tokens[1:]
        return self.tokens(rest)

    def _stop(self, tokens: list[int], start: int, answer: str, doing: str) -> int:
        """The place after the end mark of the turn that begins at `start`, its tokens checked to read as the answer."""
        end = next((i for i in range(start, len(tokens)) if tokens[i] in self.ends), None)
        said = self.text(tokens[start:end])
        if end is None or not self._reads(said, answer):
            raise errors.DataError(
                doing=doing,
                met=f"the tokens to learn read {_short(said)} where the answer is {_short(answer)}",
                todo="remove end marks and thinking from the answer, or take another chat template",
            )
        return end + 1

    def _reads(self, said: str, answer: str) -> bool:
        """True where `said` is the answer, or what this tokenizer makes of it (one may drop capitals or accents)."""
        return said.strip() in (answer.strip(), self.text(self.tokens(answer.strip())).strip())

    def _earlier(self, row: Row, tokens: list[int], doing: str) -> list[tuple[int, int]]:
        """Spans of the answers before the last, but for those that the template has since written otherwise."""
        spans = []
        for i, message in enumerate(row.prompt):
            if message.role != "assistant" or not message.content.strip() or i == 0:
                continue
            before = self.tokens(self.render(row.messages[:i], generation=True, doing=doing))
            if tokens[: len(before)] == before:
                spans.append((len(before), self._stop(tokens, len(before), message.content, doing)))
        return spans


def _eos(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    end = tokenizer.eos_token_id
    return frozenset((end,) if isinstance(end, int) else ())


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:40]} ... {text[-15:]}")


def _too_long(num_answer: int, num_tokens: int, max_length: int, doing: str) -> TooLongError:
    if num_answer > max_length:
        met = f"its answer alone has {num_answer} tokens where the context holds {max_length}"
    else:
        met = f"it has {num_tokens} tokens, {num_answer} of them the answer's, where the context holds {max_length}"
    return TooLongError(doing=doing, met=met, todo="raise max_length, or shorten or remove the row")
