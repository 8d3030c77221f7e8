"""The installed torch as its files show it, whole or damaged."""

import shutil
from pathlib import Path

import pytest
from compiled import OLD_CHECK, compiled, installed_torch

from trueup.environment.torch_build import torch_facts, torch_folder

VERSION = """from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '2.9.1+cu128'
debug = False
cuda: Optional[str] = '12.8'
git_version = '5811a8d7da873dd699ff6687092c225caffcf1bb'
hip: Optional[str] = None
"""


def test_the_installed_torch():
    folder = installed_torch()
    facts = torch_facts(folder)
    assert facts is not None
    text = (folder / "version.py").read_text()
    assert repr(facts.version) in text
    assert facts.git is not None
    assert facts.git in text
    assert facts.string_abi == "cxx11"
    assert {"libc10.so", "libtorch_cpu.so", "libtorch_python.so"} <= set(facts.libraries)
    assert bool(facts.cuda) == bool(facts.gpu_architectures)


def test_the_build_is_read_from_its_sources(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text(VERSION)
    facts = torch_facts(tmp_path / "torch")
    assert facts is not None
    assert (facts.version, facts.cuda, facts.hip, facts.debug) == ("2.9.1+cu128", "12.8", None, False)
    assert (facts.string_abi, facts.libraries, facts.gpu_architectures) == (None, (), ())


def test_the_old_string_abi(tmp_path):
    (tmp_path / "torch" / "lib").mkdir(parents=True)
    (tmp_path / "torch" / "version.py").write_text(VERSION)
    compiled(tmp_path / "torch" / "lib" / "libc10.so", f"void {OLD_CHECK}(void) {{}}\n")
    facts = torch_facts(tmp_path / "torch")
    assert facts is not None
    assert facts.string_abi == "old"


def test_what_torch_says_that_it_was_compiled_for(tmp_path):
    (tmp_path / "torch" / "lib").mkdir(parents=True)
    (tmp_path / "torch" / "version.py").write_text(VERSION)
    texts = {"one": "sm_90", "flags": "sm_80 sm_90a compute_120", "other": "needs sm_100 or newer"}
    source = "".join(f'const char *{name}(void) {{ return "{text}"; }}\n' for name, text in texts.items())
    compiled(tmp_path / "torch" / "lib" / "libtorch_python.so", source)
    facts = torch_facts(tmp_path / "torch")
    assert facts is not None
    assert facts.gpu_architectures == ("sm_80", "sm_90a", "compute_120")


@pytest.mark.parametrize(
    "text", ["", "\0\0\0", "((((" * 5000, "__version__ = compute()", "def broken(:", "__version__ = 3", "\xed\xa0\x80"]
)
def test_a_version_file_that_says_nothing(tmp_path, text):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text(text)
    assert torch_facts(tmp_path / "torch") is None
    (tmp_path / "torch-2.8.0.dist-info").mkdir()
    facts = torch_facts(tmp_path / "torch")
    assert facts is not None
    assert facts.version == "2.8.0"


def test_half_a_torch(tmp_path):
    """As an installation leaves it that was stopped: libraries cut off or not there."""
    lib = tmp_path / "torch" / "lib"
    lib.mkdir(parents=True)
    shutil.copy(installed_torch() / "version.py", tmp_path / "torch")
    (lib / "libc10.so").write_bytes((installed_torch() / "lib" / "libc10.so").read_bytes()[:100_000])
    (lib / "libtorch_python.so").touch()
    (lib / "libtorch_cuda.so").mkdir()
    facts = torch_facts(tmp_path / "torch")
    assert facts is not None
    assert (facts.string_abi, facts.gpu_architectures) == (None, ())


def test_where_torch_is(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "torch").mkdir(parents=True)  # left behind by an uninstallation
    (second / "torch").mkdir(parents=True)
    (second / "torch" / "version.py").write_text(VERSION)
    assert torch_folder([first, second]) == second / "torch"
    assert torch_folder([first]) is None
    assert torch_folder([Path("/nowhere")]) is None
