"""`trueup doctor --for`: what it prints in every format, and its exit codes."""

import json
import sys
from pathlib import Path

import pytest

from trueup.cli import main

SITE = "lib/python3.11/site-packages"


@pytest.fixture
def prefix(tmp_path, monkeypatch) -> Path:
    """An environment with a torch for CPUs, as far as its files tell."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "MASTER_PORT", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    site = tmp_path / "env" / SITE
    (site / "torch-2.8.0+cpu.dist-info").mkdir(parents=True)
    (site / "torch-2.8.0+cpu.dist-info" / "METADATA").write_text("Name: torch\nVersion: 2.8.0+cpu\n\n")
    (site / "torch").mkdir()
    (site / "torch" / "version.py").write_text("__version__ = '2.8.0+cpu'\ncuda = None\nhip = None\ndebug = False\n")
    (tmp_path / "env" / "bin").mkdir()
    (tmp_path / "env" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "env" / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.7\n")
    return tmp_path / "env"


def test_text(prefix, capsys):
    assert main(["doctor", "--env", str(prefix), "--for", "flash-attn"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("trueup: no ")
    assert "flash-attn for this environment" in text
    assert "considered" in text
    assert "not: built for torch" in text or "not: needs a torch with CUDA" in text
    assert "/home/" not in text


def test_json(prefix, capsys):
    assert main(["doctor", "--env", str(prefix), "--for", "flash-attn", "--format", "json"]) == 1
    said = json.loads(capsys.readouterr().out)["wheels"]
    assert (said["package"], said["chosen"]) == ("flash-attn", None)
    assert said["verdict"] in ("cannot-run-here", "no-wheel")
    assert "cuda" in {rejection["axis"] for each in said["candidates"] for rejection in each["rejections"]}
    assert all(each["rejections"] for each in said["candidates"])


@pytest.mark.parametrize("shape", ["sarif", "html"])
def test_other_formats(prefix, shape, capsys):
    assert main(["doctor", "--env", str(prefix), "--for", "flash-attn", "--format", shape]) == 1
    said = capsys.readouterr().out
    assert "FlashAttention 2" in said
    assert "<script" not in said


@pytest.mark.parametrize("package", ["nonsense", "flash-attn=="])
def test_a_package_without_a_table_is_wrong_usage(prefix, package, capsys):
    assert main(["doctor", "--env", str(prefix), "--for", package]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_without_it_nothing_is_said_of_wheels(prefix, capsys):
    main(["doctor", "--env", str(prefix), "--format", "json"])
    assert json.loads(capsys.readouterr().out)["wheels"] is None


def test_a_wheel_that_fits_is_told_with_its_lines():
    from trueup.environment.wheels.resolving import resolve
    from trueup.reports import diagnosis
    from trueup.schema.diagnosis import Diagnosis
    from trueup.schema.environment import Environment, Gpu, Tool, Torch

    facts = Environment(
        python_tag="cp312",
        executable="/env/bin/python",
        platform="Linux 6.1.0",
        machine="x86_64",
        torch=Torch(version="2.8.0+cu128", cuda="12.8", string_abi="cxx11"),
        gpus=(Gpu(index=0, name="NVIDIA H100", compute_capability="9.0"),),
        tools={"glibc": Tool(name="glibc", version="2.35")},
    )
    said = diagnosis.as_text(Diagnosis(facts=facts, wheels=resolve(facts, "flash-attn")))
    line = (
        "    pip    /env/bin/python -m pip install https://github.com/Dao-AILab/flash-attention/releases/download/"
        "v2.8.3.post1/flash_attn-2.8.3.post1%2Bcu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
    )
    assert line in said.splitlines()
    assert "for another torch" in said
