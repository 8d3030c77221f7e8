"""Which switch of the program was on where it called torch.compile, read from its source."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import trueup

BOOTSTRAP = Path(trueup.__file__).parent / "instrument" / "bootstrap"
ON = {"cfg": SimpleNamespace(compile=True, model=SimpleNamespace(compile=True), loss=SimpleNamespace(compile=True))}
ON |= {"args": {"use_torch_compile": True}, "compile_loss": True, "fast": True, "mode": "compile", "no_compile": False}


@pytest.fixture
def compile_switch(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BOOTSTRAP))
    from trueup_instrument.conditions import compile_switch

    return compile_switch


@pytest.fixture
def seen(tmp_path: Path, compile_switch: Any) -> Callable[[str], str | None]:
    """What is told of the one call of `torch.compile` in a program of the given source."""

    def run(source: str) -> str | None:
        told: list[str | None] = []
        torch = SimpleNamespace(compile=lambda *given, **options: told.append(compile_switch(sys._getframe(1))))
        path = tmp_path / "program.py"
        path.write_text(source)
        exec(compile(source, str(path), "exec"), {"torch": torch, "f": None, **ON})
        (switch,) = told
        return switch

    return run


@pytest.mark.parametrize(
    ("source", "switch"),
    [
        ("if cfg.compile:\n    f = torch.compile(f)", "cfg.compile"),
        ("if cfg.model.compile and fast:\n    x = 1\n    f = torch.compile(\n        f,\n    )", "cfg.model.compile"),
        ("f = torch.compile(f) if args['use_torch_compile'] else f", "args['use_torch_compile']"),
        (
            "f = (\n    torch.compile(f)\n    if args.get('use_torch_compile', False)\n    else f\n)",
            "args.get('use_torch_compile', False)",
        ),
        (
            "if getattr(cfg, 'compile', False):\n    if fast:\n        torch.compile(f)",
            "getattr(cfg, 'compile', False)",
        ),
        ("if cfg.compile:\n    @torch.compile\n    def f(): pass", "cfg.compile"),
        (
            "def made(f):\n    if not cfg.compile:\n        return f\n    return torch.compile(f)\nmade(f)",
            "cfg.compile",
        ),
        (
            "def made(f):\n    if not fast or not cfg.model.compile:\n        return f\n    if fast:\n"
            "        return torch.compile(f)\nmade(f)",
            "cfg.model.compile",
        ),
        ("for _ in range(1):\n    if not cfg.compile:\n        continue\n    f = torch.compile(f)", "cfg.compile"),
        ("if not cfg.compile:\n    pass\nelse:\n    f = torch.compile(f)", "cfg.compile"),
        ("f = f if not cfg.compile else torch.compile(f)", "cfg.compile"),
    ],
)
def test_the_switch_is_told(seen: Callable[[str], str | None], source: str, switch: str):
    assert seen(source) == switch


@pytest.mark.parametrize(
    "source",
    [
        "torch.compile(f)",
        "if fast:\n    torch.compile(f)",
        "if not no_compile:\n    torch.compile(f)",
        "if compile_loss:\n    torch.compile(f)",
        "if cfg.loss.compile:\n    torch.compile(f)",
        "if mode == 'compile':\n    torch.compile(f)",
        "if cfg.compile or fast:\n    torch.compile(f)",
        "if no_compile:\n    pass\nelse:\n    torch.compile(f)",
        "if hasattr(torch, 'compile'):\n    torch.compile(f)",
        "if cfg.compile:\n    def later():\n        torch.compile(f)\nlater()",
        "if cfg.compile:\n    pass\ntorch.compile(f)",
        "if not cfg.compile:\n    pass\ntorch.compile(f)",
        "def made(f):\n    if not cfg.compile and not fast:\n        return f\n    return torch.compile(f)\nmade(f)",
        "def plain(f):\n    if not cfg.compile:\n        return f\n\ndef made(f):\n    torch.compile(f)\nmade(f)",
    ],
    ids=range(14),
)
def test_no_other_condition_is_taken_for_one(seen: Callable[[str], str | None], source: str):
    assert seen(source) is None


def test_code_without_a_file_has_none(compile_switch: Any):
    told: list[str | None] = []
    exec(
        "if use_compile:\n    call()",
        {"use_compile": True, "call": lambda: told.append(compile_switch(sys._getframe(1)))},
    )
    assert told == [None]
