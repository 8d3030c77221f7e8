"""An environment whose every part writes a mark when it is imported or run is described, and no mark is written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hand_made import SITE, distribution, environment, program, write

LIBRARIES = ("torch", "transformers", "accelerate", "flash_attn", "triton", "xformers", "numpy")
COMPILERS = ("nvcc", "g++", "gcc", "clang", "ninja", "cmake", "ptxas", "ld", "ldconfig", "uv", "conda")
CHECK = "import sys; from trueup.cli import main; code = main(sys.argv[1:]); "
CHECK += "print([name for name in {libraries!r} if name in sys.modules], file=sys.stderr); sys.exit(code)"


@pytest.fixture
def traps(tmp_path) -> Path:
    """The prefix of an environment full of traps; their marks stand in `marks`."""
    (tmp_path / "marks").mkdir()
    site = environment(tmp_path / "env")
    trap = f"open({str(tmp_path / 'marks')!r} + '/' + __name__, 'w'); raise RuntimeError('imported')\n"
    for name in (*LIBRARIES, "sitecustomize", "usercustomize"):
        write(site, {f"{name}.py" if "customize" in name else f"{name}/__init__.py": trap})
        if "customize" not in name:
            distribution(site, name.replace("_", "-"), "1.0.0")
    write(
        site,
        {"torch/version.py": "__version__ = '2.8.0+cu128'\ncuda = '12.8'\nhip = None\ndebug = False\n"},
    )
    write(site, {"trap.pth": f"import os; open({str(tmp_path / 'marks' / 'pth')!r}, 'w')\n"})
    for name in ("python", "python3", "python3.11", "nvidia-smi"):
        program(tmp_path / "env" / "bin" / name, f"touch {tmp_path}/marks/{name}")
    for name in COMPILERS:
        program(tmp_path / "tools" / name, f"touch {tmp_path}/marks/{name}")
    return tmp_path / "env"


def marks(prefix: Path) -> list[str]:
    return sorted(os.listdir(prefix.parent / "marks"))


def doctor(prefix: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = CHECK.format(libraries=LIBRARIES)
    variables = {"PATH": f"{prefix}/bin:{prefix.parent}/tools", "HOME": str(prefix.parent / "home")}
    command = [sys.executable, "-c", code, "doctor", *arguments]
    return subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=60, check=False, cwd=prefix.parent
    )


def test_the_traps_are_set(traps):
    subprocess.run([traps / "bin" / "python"], check=True)
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import torch"], env={"PYTHONPATH": str(traps / SITE)}, check=False, stderr=-3
    )
    assert done.returncode != 0
    assert marks(traps) == ["python", "torch"]


@pytest.mark.parametrize("option", ["--env", "--python"])
def test_nothing_of_the_environment_is_imported_or_run(traps, option):
    done = doctor(traps, option, str(traps if option == "--env" else traps / "bin" / "python"), "--format", "json")
    facts = json.loads(done.stdout)["facts"]
    assert facts["packages"]["flash-attn"]["version"] == "1.0.0"
    assert facts["torch"]["version"] == "2.8.0+cu128"
    assert facts["python"] == "3.11.7"
    assert facts["tools"]["g++"]["path"] == f"{traps.parent}/tools/g++"
    assert done.stderr.splitlines()[-1] == "[]", "a library was imported into trueup itself"
    assert marks(traps) == []


def test_nothing_is_run_for_the_report(traps):
    done = doctor(traps, "--env", str(traps))
    assert done.stdout.startswith("trueup: ")
    assert done.stderr.splitlines()[-1] == "[]"
    assert marks(traps) == []
