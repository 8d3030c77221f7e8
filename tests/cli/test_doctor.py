"""`trueup doctor`: what it prints, where, and with which exit code."""

import json
import os
import sys
from pathlib import Path

import pytest

from trueup.cli import main

SITE = "lib/python3.11/site-packages"


def distribution(prefix: Path, name: str, version: str, *requires: str) -> None:
    info = prefix / SITE / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {each}" for each in requires)]
    (info / "METADATA").write_text("\n".join(lines) + "\n\n")


@pytest.fixture
def prefix(tmp_path, monkeypatch) -> Path:
    """A virtual environment without a package, on a machine whose user configured nothing."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "MASTER_PORT", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "env" / SITE).mkdir(parents=True)
    (tmp_path / "env" / "bin").mkdir()
    (tmp_path / "env" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "env" / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.7\n")
    return tmp_path / "env"


@pytest.fixture
def conflict(prefix) -> Path:
    distribution(prefix, "trl", "0.24.0", "transformers>=4.56.1")
    distribution(prefix, "transformers", "4.40.0")
    return prefix


def test_nothing_found(prefix, capsys):
    assert main(["doctor", "--env", str(prefix)]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "trueup: nothing found; Python 3.11.7, no torch, no GPU"
    assert any(line.startswith("  python      3.11.7") for line in rest)


def test_a_finding(conflict, capsys):
    assert main(["doctor", "--env", str(conflict)]) == 1
    text = capsys.readouterr().out
    assert text.startswith("trueup: 1 warning: environment/installed-versions-conflict; Python 3.11.7")
    assert "trl 0.24.0 needs transformers>=4.56.1, and transformers 4.40.0 is installed" in text
    assert "pip install 'transformers>=4.56.1'" in text


def test_json(conflict, tmp_path, capsys):
    assert main(["doctor", "--env", str(conflict), "--format", "json", "--json", str(tmp_path / "out" / "d.json")]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said == json.loads((tmp_path / "out" / "d.json").read_text())
    assert said["facts"]["packages"]["trl"]["requires"] == ["transformers>=4.56.1"]
    assert said["findings"][0]["rule"] == "environment/installed-versions-conflict"


def test_sarif(conflict, capsys):
    assert main(["doctor", "--env", str(conflict), "--format", "sarif"]) == 1
    log = json.loads(capsys.readouterr().out)
    (run,) = log["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["environment/installed-versions-conflict"]
    assert run["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]


def test_html(conflict, capsys):
    assert main(["doctor", "--env", str(conflict), "--format", "html"]) == 1
    page = capsys.readouterr().out
    assert "environment/installed-versions-conflict" in page
    assert "<script" not in page


@pytest.fixture
def note(prefix, monkeypatch) -> Path:
    """An environment with nothing worse than a note: more build jobs than any machine has memory for."""
    monkeypatch.setenv("MAX_JOBS", "100000")
    return prefix


def test_a_note_alone_is_a_finding(note, capsys):
    assert main(["doctor", "--env", str(note)]) == 1
    output = capsys.readouterr()
    assert output.out.startswith("trueup: 1 note: environment/source-build-out-of-memory")
    assert output.err == ""


@pytest.mark.parametrize(("least", "code"), [("note", 1), ("warning", 0), ("error", 0)])
def test_the_severity_that_fails_can_be_chosen_where_a_note_is_all(note, least, code):
    assert main(["doctor", "--fail-on", least, "--env", str(note)]) == code
    assert main(["doctor", "--strict", "--env", str(note)]) == 0


@pytest.mark.parametrize(("least", "code"), [("note", 1), ("warning", 1), ("error", 0)])
def test_the_severity_that_fails_can_be_chosen_where_there_is_a_warning(conflict, least, code):
    assert main(["doctor", "--fail-on", least, "--env", str(conflict)]) == code
    assert main(["doctor", "--strict", "--env", str(conflict)]) == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--env", "/no-such-folder"], "/no-such-folder is no folder"),
        (["--env", "."], "is no Python environment"),
        (["--python", "no-such-python"], "there is no no-such-python on PATH"),
        (["--python", "/bin/sh", "--env", "."], "give one of them"),
        (["--format", "yaml"], "yaml"),
        (["--json", "."], "cannot write .: it is a folder"),
    ],
)
def test_wrong_usage(prefix, capsys, arguments, complaint):
    assert main(["doctor", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert complaint in output.err


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PIP_INDEX_URL", "https://someone:sesame@pypi.example.org/simple"),
        ("PIP_INDEX_URL", "https://someone:ses@me@pypi.example.org/simple"),
        ("PIP_INDEX_URL", "https://sesame@pypi.example.org/simple"),
        ("PIP_INDEX_URL", "https://pypi.example.org/simple?token=sesame"),
        ("PIP_EXTRA_INDEX_URL", "https://a.example.org/simple https://someone:sesame@pypi.example.org/simple"),
        ("PIP_FIND_LINKS", "https://pypi.example.org/x,https://someone:sesame@pypi.example.org/y"),
        ("PIP_PROXY", "someone:sesame@pypi.example.org:8080"),
        ("PIP_PROXY", "http://someone:sesame@pypi.example.org:8080"),
        ("UV_INDEX", "private=https://someone:sesame@pypi.example.org/simple"),
        ("UV_DEFAULT_INDEX", "https://__token__:sesame@pypi.example.org/simple"),
    ],
)
@pytest.mark.parametrize("shape", ["text", "json", "html"])
def test_credentials_of_an_index_are_not_printed(prefix, monkeypatch, capsys, variable, value, shape):
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_", "TORCH", "CUDA", "NVIDIA"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv(variable, value)
    main(["doctor", "--env", str(prefix), "--format", shape])
    text = capsys.readouterr().out
    assert variable in text, "what is set is shown, without what is secret in it"
    assert "pypi.example.org" in text
    assert not [secret for secret in ("sesame", "ses@", "me@", "someone", "__token__") if secret in text]


def test_no_secret_and_no_home_folder(prefix, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HF_TOKEN", "hf_" + "x" * 30)
    monkeypatch.setenv("NCCL_DEBUG_FILE", "https://someone:sesame@example.org/" + "hf_" + "y" * 30)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home" / "hub"))
    for shape in ("text", "json", "sarif", "html"):
        assert main(["doctor", "--env", str(prefix), "--format", shape]) == 0
        text = capsys.readouterr().out
        assert not [secret for secret in ("sesame", "xxxxxx", "yyyyyy", str(tmp_path / "home")) if secret in text]


def test_terminal_sequences_of_a_package_are_not_printed(prefix, capsys):
    distribution(prefix, "evil", "1.0\x1b]0;title\x07", "transformers>=\x1b[31m5")
    distribution(prefix, "trl", "1.0\x1b[2J", "transformers>=4")
    assert main(["doctor", "--env", str(prefix)]) == 1
    assert "\x1b" not in capsys.readouterr().out


def test_the_environment_of_trueup_is_looked_at_when_no_other_is_named(prefix, capsys):
    main(["doctor", "--format", "json"])
    facts = json.loads(capsys.readouterr().out)["facts"]
    assert facts["prefix"].endswith(Path(sys.prefix).name)
    assert facts["chosen_by"] == "the environment of trueup"


def test_the_active_environment_is_looked_at_first(prefix, monkeypatch, capsys):
    monkeypatch.setenv("VIRTUAL_ENV", str(prefix))
    main(["doctor", "--format", "json"])
    facts = json.loads(capsys.readouterr().out)["facts"]
    assert (facts["prefix"], facts["chosen_by"]) == (str(prefix), "VIRTUAL_ENV")
