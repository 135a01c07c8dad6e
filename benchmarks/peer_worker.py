"""One engine that answers prompts of token ids, line by line; peers.py starts it in the engine's own environment.

    python peer_worker.py '{"engine": "transformers", "model": "FOLDER", "dtype": "bfloat16", "stops": [2], ...}'

A line in, {"prompt": [..], "max_new_tokens": 8}; a line out, {"tokens": [..], "seconds": 0.1}. Nothing of draftune is
imported unless it is the engine asked for. An engine that is not installed ends with status 3.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NOT_INSTALLED = 3
Answer = Callable[[list[int], int], list[int]]  # greedy tokens after a prompt, a stop token included


def main() -> None:
    """Answer until there are no more lines."""
    settings = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever an engine prints is no answer
    try:
        answer = ENGINES[settings["engine"]](settings)
    except ImportError as error:
        print(error, file=sys.stderr)
        raise SystemExit(NOT_INSTALLED) from error
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        start = time.perf_counter()
        tokens = answer(asked["prompt"], asked["max_new_tokens"])
        print(json.dumps({"tokens": tokens, "seconds": time.perf_counter() - start}), file=answers, flush=True)


def draftune(settings: dict[str, Any]) -> Answer:
    """Plain, or drafted by the drafter named."""
    from draftune.decode.calibrate import adaptive
    from draftune.decode.loop import DecodeConfig, Decoder
    from draftune.decode.plain import PlainDecoder
    from draftune.export import bundle
    from draftune.target import lora
    from draftune.types import Request

    opened = bundle.read(Path(settings["bundle"]), dtype=settings["dtype"])
    target = lora.merge(opened.target, keep=False)
    runner, name = target.runner(release=True), settings.get("drafter")
    decoder: Any = PlainDecoder(runner)
    if name:
        drafter, num_drafts = opened.drafters[name], settings["num_drafts"]
        plan = adaptive(runner, drafter, num_rows=1, length=192, most=num_drafts) if settings.get("adaptive") else None
        decoder = Decoder(runner, drafter, DecodeConfig(num_drafts=num_drafts), plan=plan)

    def answer(prompt: list[int], limit: int) -> list[int]:
        request = Request(id="0", prompt=tuple(prompt), max_new_tokens=limit, stop_tokens=tuple(settings["stops"]))
        return list(decoder.generate([request])[0].tokens)

    return answer


def transformers(settings: dict[str, Any]) -> Answer:
    """`generate`, with prompt lookup where `lookup` says how many tokens."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(settings["model"], dtype=settings["dtype"]).eval()
    further = {"prompt_lookup_num_tokens": settings["lookup"]} if settings.get("lookup") else {}

    def answer(prompt: list[int], limit: int) -> list[int]:
        tokens = torch.tensor([prompt])
        done = model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=limit,
            do_sample=False,
            eos_token_id=settings["stops"],
            pad_token_id=settings["stops"][0],
            **further,
        )
        return done[0, len(prompt) :].tolist()

    return answer


def llama_cpp(settings: dict[str, Any]) -> Answer:
    """The file named, with llama.cpp's own lookup drafting where `lookup` says how many tokens."""
    from llama_cpp import Llama
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    lookup, threads = settings.get("lookup"), settings["threads"]
    model = Llama(
        settings["file"],
        n_ctx=2048,
        n_threads=threads,
        n_threads_batch=threads,
        logits_all=bool(lookup),
        draft_model=LlamaPromptLookupDecoding(num_pred_tokens=lookup) if lookup else None,
        verbose=False,
    )

    def answer(prompt: list[int], limit: int) -> list[int]:
        model.reset()  # or it would not read a prompt again that it has read
        tokens: list[int] = []
        for token in model.generate(prompt, temp=0.0):
            tokens.append(token)
            if token in settings["stops"] or len(tokens) == limit:
                break
        return tokens

    return answer


def vllm(settings: dict[str, Any]) -> Answer:
    """Offline vLLM, with its own lookup drafting where `lookup` says how many tokens."""
    from vllm import LLM, SamplingParams

    lookup = settings.get("lookup")
    ngram = {"method": "ngram", "num_speculative_tokens": lookup, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    model = LLM(
        settings["model"],
        dtype=settings["dtype"],
        max_model_len=2048,
        enable_prefix_caching=False,
        skip_tokenizer_init=True,
        speculative_config=ngram if lookup else None,
    )

    def answer(prompt: list[int], limit: int) -> list[int]:
        sampling = SamplingParams(temperature=0.0, max_tokens=limit, stop_token_ids=settings["stops"], detokenize=False)
        (done,) = model.generate([{"prompt_token_ids": prompt}], sampling, use_tqdm=False)
        return list(done.outputs[0].token_ids)

    return answer


ENGINES: dict[str, Callable[[dict[str, Any]], Answer]] = {
    "draftune": draftune,
    "transformers": transformers,
    "llama.cpp": llama_cpp,
    "vllm": vllm,
}


if __name__ == "__main__":
    main()
