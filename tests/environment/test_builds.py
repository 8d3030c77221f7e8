"""Where compiled packages were built: a small one, compiled by pip here, beside torch as it came from its index."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from compiled import installed_torch
from hand_made import distribution

from trueup.environment.builds import builds
from trueup.environment.packages import installed
from trueup.schema.environment import Package

SETUP = """
from setuptools import Extension, setup
setup(name="small-ext", version="1.0", ext_modules=[Extension("small_ext", ["small.c"])])
"""
CODE = """
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "small_ext", 0, -1, 0};
PyMODINIT_FUNC PyInit_small_ext(void) { return PyModule_Create(&module); }
"""


@pytest.fixture
def site(tmp_path) -> Path:
    """A folder of packages with a package that pip has just compiled."""
    pytest.importorskip("setuptools")
    source = tmp_path / "source"
    source.mkdir()
    (source / "setup.py").write_text(SETUP)
    (source / "small.c").write_text(CODE)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--target", tmp_path / "site", source], capture_output=True, text=True, timeout=200, check=False
    )
    if "error: command" in done.stderr:
        pytest.skip("no C compiler here")
    assert done.returncode == 0, done.stderr
    return tmp_path / "site"


def test_what_was_compiled_here_is_told_from_what_came_from_an_index(site):
    packages, _ = installed([site, installed_torch().parent])
    found = builds(["small-ext", "torch", None, "small-ext"], packages)
    assert list(found) == ["small-ext", "torch"]
    assert "-linux_" in found["small-ext"]["tag"]
    assert "manylinux" in found["torch"]["tag"]
    assert time.time() - 300 < found["small-ext"]["installed_at"] <= time.time() + 1
    assert found["torch"]["installed_at"] < found["small-ext"]["installed_at"]


def test_metadata_that_are_gone_or_damaged(tmp_path):
    info = distribution(tmp_path, "lost", "1.0")
    (info / "WHEEL").write_bytes(b"\xff\x00Tag\n")
    packages, _ = installed([tmp_path])
    assert builds(["lost", "absent"], packages) == {"lost": {"tag": None, "installed_at": None}}
    gone = {"gone": Package(name="gone", version="1", location=str(tmp_path / "nowhere"))}
    assert builds(["gone"], gone) == {}
