"""Of transformers only what it exports at the top is used: everything below moves between versions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

SOURCES = sorted((ROOT / "src").rglob("*.py"))


def private_uses(code: str) -> Iterator[str]:
    """Imports from below the top of transformers, imports of underscored names, and attribute ways round both."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("transformers."))
        elif isinstance(node, ast.ImportFrom) and node.module:
            top, _, below = node.module.partition(".")
            if top == "transformers" and (below or any(alias.name.startswith("_") for alias in node.names)):
                yield node.module
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            inner = node.value
            if isinstance(inner.value, ast.Name) and inner.value.id == "transformers" and inner.attr.islower():
                yield f"transformers.{inner.attr}.{node.attr}"
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            yield from (ast.unparse(one) for one in node.args if "transformers." in ast.unparse(one))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src/draftune")))
def test_only_public_names(path: Path) -> None:
    assert list(private_uses(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "code",
    [
        "from transformers.models.llama import modeling_llama",
        "import transformers.cache_utils",
        "from transformers import _LazyModule",
        "import transformers\ntransformers.masking_utils.create_causal_mask",
        "import importlib\nimportlib.import_module('transformers.masking_utils')",
    ],
)
def test_private_uses_are_found(code: str) -> None:
    assert list(private_uses(code))


def test_public_uses_are_not() -> None:
    code = "from transformers import Cache\nimport transformers\ntransformers.AutoConfig.from_pretrained('x')"
    assert not list(private_uses(code))
