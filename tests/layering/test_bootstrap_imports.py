"""What runs inside the user's process imports the standard library, itself, and user libraries only when asked to."""

import ast
import sys
from pathlib import Path

import pytest

import trueup

BOOTSTRAP = Path(trueup.__file__).parent / "instrument" / "bootstrap"
OWN = "trueup_instrument"


def violations(source: str) -> list[str]:
    """`line: module` of each import that code in the bootstrap folder must not make."""
    found = []

    def visit(node: ast.AST, in_function: bool) -> None:
        for name, line in imported(node):
            top = name.partition(".")[0]
            if top == "trueup" or not (in_function or top == OWN or top in sys.stdlib_module_names):
                found.append(f"{line}: {name}")
        for child in ast.iter_child_nodes(node):
            visit(child, in_function or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))

    visit(ast.parse(source), in_function=False)
    return found


def imported(node: ast.AST) -> list[tuple[str, int]]:
    if isinstance(node, ast.Import):
        return [(alias.name, node.lineno) for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [(node.module or "", node.lineno)]
    return []


@pytest.mark.parametrize(
    "source",
    [
        "import trueup",
        "def f():\n    from trueup.schema import record",
        "import torch",
        "try:\n    import torch\nexcept ImportError:\n    torch = None",
        "class A:\n    import numpy",
        "if True:\n    from torch import nn",
    ],
)
def test_a_forbidden_import_is_seen(source):
    assert violations(source)


@pytest.mark.parametrize(
    "source",
    ["import os, json", "from trueup_instrument import events", "def f():\n    import torch", "from . import a"],
)
def test_an_allowed_import_passes(source):
    assert violations(source) == []


def test_the_bootstrap_folder_keeps_the_rule():
    files = sorted(BOOTSTRAP.rglob("*.py"))
    assert BOOTSTRAP / "sitecustomize.py" in files
    wrong = {file.name: violations(file.read_text(encoding="utf-8")) for file in files}
    assert {name: lines for name, lines in wrong.items() if lines} == {}
