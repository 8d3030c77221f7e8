"""`trueup attention bench` on the command line."""

import json
import subprocess
import sys

import pytest

from trueup.cli import main

SMALL = ("--shape", "1,2,64,16", "--dtype", "fp32", "--mode", "none", "--repeat", "2")


@pytest.fixture(autouse=True)
def _small_peaks(monkeypatch):
    pytest.importorskip("torch")
    from trueup.attention.bench import roofline

    monkeypatch.setattr(roofline, "MATRIX", {"cpu": 256})
    monkeypatch.setattr(roofline, "COPIED", {"cpu": 1 << 22})


def test_it_says_what_to_choose_and_writes_what_was_asked_for(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = main(["attention", "bench", *SMALL, "--save", "--report", "out/bench.html", "--json", "out/bench.json"])
    said = capsys.readouterr()
    assert code == 0
    assert "choose " in said.out
    assert "trying sdpa-flash-cpu" in said.err
    raw = json.loads((tmp_path / "out/bench.json").read_text())
    assert raw["order"][0] in raw["choose"]
    assert raw["rows"][0]["both"]["samples"] == 2
    page = (tmp_path / "out/bench.html").read_text()
    assert "<svg" in page
    assert "sdpa-flash-cpu" in page
    assert "sdpa-flash-cpu" in (tmp_path / ".trueup/attention.json").read_text()


@pytest.mark.parametrize("shape", ["json", "sarif", "html"])
def test_formats(shape, capsys):
    assert main(["attention", "bench", *SMALL, "--quiet", "--kernel", "eager", "--format", shape]) == 0
    out = capsys.readouterr().out
    if shape == "html":
        assert out.startswith("<!doctype html>")
    else:
        assert json.loads(out)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--shape", "1,2"], "'1,2' is no shape"),
        (["--shape", "1,2,3,4", "--mask", "x"], "'x' is no mask"),
        (["--shape", "1,2,3,4", "--dtype", "int8"], "int8"),
        (["--shape", "1,2,3,4", "--device", "cuda"], "sees no GPU"),
        (["--shape", "1,2,3,4", "--kernel", "sdpa-cudnn"], "no kernel 'sdpa-cudnn'"),
        (["--shape", "1,2,3,4", "--report", "x.txt"], "ends in .html"),
        (["--shape", "1,2,3,4", "--budget", "0"], "0 is no number of seconds"),
        ([], "--shape"),
    ],
)
def test_usage_errors(arguments, said, capsys):
    if "cuda" in arguments or "sdpa-cudnn" in arguments:
        import torch

        if torch.cuda.is_available():
            pytest.skip("there is a GPU")
    assert main(["attention", "bench", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_without_torch_the_interpreter_to_use_is_named(tmp_path):
    program = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'torch' else find(name, *rest)\n"
        "from trueup.cli import main; sys.exit(main(['attention', 'bench', '--shape', '1,2,3,4']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert f"torch is not installed for {sys.executable}" in done.stderr
    assert "-m trueup attention bench" in done.stderr
