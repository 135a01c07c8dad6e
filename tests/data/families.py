"""Chat templates in the shape of real families, over small tokenizers trained here."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

CORPUS = (
    "SELECT name FROM ships WHERE speed > 20 ORDER BY name. What is the speed of the ship?\n\n"
    "The answer is 42, and yes it is.\n\n\nYes\n\n\nSELECT\n"
    "Summarize the dialogue in one sentence. user assistant system model\n"
) * 4

CHATML = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful assistant<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""

LLAMA3 = """{{- bos_token }}{%- for message in messages %}{{- '<|start_header_id|>' + message['role'] +
'<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"""

MISTRAL = """{{ bos_token }}{% for message in messages %}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('roles must alternate user/assistant') }}{% endif %}
{%- if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}
{%- else %}{{ ' ' + message['content'] + eos_token }}{% endif %}{% endfor %}"""

LLAMA2 = """{% for message in messages %}{% if message['role'] == 'user' %}
{{- bos_token + '[INST] ' + message['content'] | trim + ' [/INST]' }}
{%- else %}{{ ' ' + message['content'] | trim + ' ' + eos_token }}{% endif %}{% endfor %}"""

PHI3 = """{% for message in messages %}{{'<|' + message['role'] + '|>' + '\n' + message['content'] + '<|end|>\n'}}
{%- endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"""

GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}
{%- endif %}{% for message in messages %}{% set role = 'model' if message['role'] == 'assistant' else 'user' %}
{{- '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"""

QWEN3 = """{%- set ns = namespace(last=-1) %}
{%- for message in messages %}{% if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for message in messages %}
{%- if message.role == 'assistant' %}
{%- set content = message.content %}{% set thought = '' %}
{%- if '</think>' in content %}
{%- set thought = content.split('</think>')[0].split('<think>')[-1].strip('\n') %}
{%- set content = content.split('</think>')[-1].lstrip('\n') %}
{%- endif %}
{%- if loop.index0 > ns.last %}
{{- '<|im_start|>assistant\n<think>\n' + thought + '\n</think>\n\n' + content.lstrip('\n') }}
{%- else %}{{- '<|im_start|>assistant\n' + content }}{% endif %}
{{- '<|im_end|>\n' }}
{%- else %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{% endif %}
{%- endif %}"""

ALWAYS_THINKING = CHATML.replace("<|im_start|>assistant\n'", "<|im_start|>assistant\n<think>\n'")
NO_MARKS = "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\n' }}{% endfor %}"


@dataclass(frozen=True, kw_only=True)
class Family:
    """A template, the tokenizer's shape, and what ends an answer."""

    template: str
    end: str
    eos: str
    pieces: bool = False  # SentencePiece's shape: a space is a letter, and one is put before a text
    keeps_earlier: bool = True  # earlier answers stay as they were said

    @property
    def ends(self) -> set[str]:
        return {self.end, self.eos}


FAMILIES = {
    "chatml": Family(template=CHATML, end="<|im_end|>", eos="<|im_end|>"),
    "llama3": Family(template=LLAMA3, end="<|eot_id|>", eos="<|eot_id|>"),
    "mistral": Family(template=MISTRAL, end="</s>", eos="</s>", pieces=True),
    "llama2": Family(template=LLAMA2, end="</s>", eos="</s>", pieces=True),
    "phi3": Family(template=PHI3, end="<|end|>", eos="<|endoftext|>"),
    "gemma": Family(template=GEMMA, end="<end_of_turn>", eos="<eos>", pieces=True),
    "qwen3": Family(template=QWEN3, end="<|im_end|>", eos="<|im_end|>", keeps_earlier=False),
}
SPECIAL = [
    *sorted({mark for family in FAMILIES.values() for mark in family.ends}),
    *("<s>", "<unk>", "<|im_start|>", "<|start_header_id|>", "<|end_header_id|>"),
    *("<|user|>", "<|assistant|>", "<|system|>", "<start_of_turn>", "<think>", "</think>"),
]


WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"  # as Llama-3 and Qwen


@functools.cache
def trained(pieces: bool) -> Any:
    """A byte-level or SentencePiece-shaped tokenizer of a few hundred tokens."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    model = models.BPE(byte_fallback=True, unk_token="<unk>") if pieces else models.BPE()
    made = Tokenizer(model)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet()) if not pieces else [f"<0x{byte:02X}>" for byte in range(256)]
    if pieces:
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        made.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
    else:
        split = pre_tokenizers.Split(Regex(WORDS), "isolated")
        made.pre_tokenizer = pre_tokenizers.Sequence(
            [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
        made.decoder = decoders.ByteLevel()
    bytes_ = [] if not pieces else alphabet
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=[*SPECIAL, *bytes_],
        initial_alphabet=[] if pieces else alphabet,
        show_progress=False,
    )
    made.train_from_iterator([CORPUS], trainer)
    return made


def tokenizer(family: Family | str, template: str | None = None) -> Any:
    """A tokenizer of a family, with another template where one is given."""
    from transformers import PreTrainedTokenizerFast

    family = FAMILIES[family] if isinstance(family, str) else family
    made = PreTrainedTokenizerFast(tokenizer_object=trained(family.pieces), bos_token="<s>", eos_token=family.eos)
    made.chat_template = template or family.template
    return made


def lowering() -> Any:
    """A ChatML tokenizer that writes everything small."""
    from tokenizers import Tokenizer, normalizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer.from_str(trained(False).to_str())
    inner.normalizer = normalizers.Lowercase()  # type: ignore[assignment]
    made = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="<|im_end|>")
    made.chat_template = CHATML
    return made
