"""The exact command out of what a remedy says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from trueup.remedies.installing import install_command, words
from trueup.rules.registry import all_rules
from trueup.schema.finding import Finding, Remedy


def said(*hows: str) -> str | None:
    remedies = tuple(Remedy(id="any", kind="install", automatic=False, how=how) for how in hows)
    return install_command(
        Finding(
            rule="compile/any",
            layers=("compile",),
            severity="error",
            confidence="established",
            message="",
            cause="",
            remedies=remedies,
        )
    )


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ("pip install -U 'peft>=0.15' 'torch>=2.5'", "pip install -U 'peft>=0.15' 'torch>=2.5'"),
        ("pip install -U deepspeed (fixed in 2026)", "pip install -U deepspeed"),
        (
            "pip install -U flash-attn --no-build-isolation (2.5.5 and newer)",
            "pip install -U flash-attn --no-build-isolation",
        ),
        (
            "pip install 'bitsandbytes>=0.46' 'torch>=2.8': 4-bit layers",
            "pip install 'bitsandbytes>=0.46' 'torch>=2.8'",
        ),
        ("pip install -U xformers (or the package that the path names), or build it", None),
        ("accelerate >= 1.14, which compiles blocks in place", "pip install 'accelerate>=1.14'"),
        ("torch >= 2.5.1 instead of 2.5.0; a cuDNN with the fix", "pip install 'torch>=2.5.1'"),
        ("pip install URL of a wheel for this Python, torch, CUDA and C++ ABI", None),
        ("pip install --force-reinstall --no-deps --no-cache-dir <package>, with the Python that will run it", None),
        ("pip install torch packaging, then pip install --no-build-isolation PACKAGE", None),
        ("a newer torch than the one that raises", None),
        ("install a newer NVIDIA driver on the host", None),
        ("trueup doctor --for flash-attn, which names the wheel that fits", None),
    ],
)
def test_a_line_is_taken_where_it_is_exact(how: str, line: str | None) -> None:
    assert said(how) == line


def test_the_first_exact_line_is_taken() -> None:
    assert said("install a driver", "torch >= 2.4", "torch >= 2.5") == "pip install 'torch>=2.4'"


def test_every_line_of_the_rules_is_one_that_pip_understands() -> None:
    found = {
        line
        for rule in all_rules()
        for remedy in rule.remedies
        if remedy.kind == "install" and (line := said(remedy.how)) is not None
    }
    assert len(found) > 8
    for line in found:
        asked = [sys.executable, "-m", "pip", "install", "--help", *words(line)]
        assert subprocess.run(asked, capture_output=True).returncode == 0
