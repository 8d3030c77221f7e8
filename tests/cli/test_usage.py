"""A user's mistake gets one clear line and what to type instead, exit code 2, and no traceback of ours."""

import os
import sys

import pytest

from trueup import __version__
from trueup.cli import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rum"], "Did you mean 'run'"),
        (["run"], "no command to run; for example: trueup run -- torchrun train.py"),
        (["run", "--"], "no command to run"),
        (["run", "--nproc", "2", "train.py"], "an option of your own command goes behind `--`"),
        (["run", "--steps", "0", "--", "x"], "--steps"),
        (["run", "--steps", "many", "--", "x"], "--steps"),
        *(
            ([command, "--timeout", value, "--", "x"], f"{value} is no number of seconds above 0")
            for command in ("run", "fix", "verify")
            for value in ("0", "-1", "nan", "inf", "-inf", "1e400", "soon")
        ),
        (["run", "--format", "xml", "--", "x"], "text"),
        (["run", "--report", "python", "train.py"], "--report takes a file that ends in .html, got 'python'"),
        (["bisect", "--repro", "repro.md", "--", "x"], "--repro takes a file that ends in .py, got 'repro.md'"),
        (["bisect", "--layers", "gpu", "--", "x"], "'gpu' cannot be switched; choose from adapter"),
        (["bisect", "--fails-when", "slow", "--", "x"], "'slow' names no fault; write one of error[:TEXT]"),
        (["run", "--set", "gpu=off", "--", "x"], "no layer 'gpu' to set; choose from compile, attention"),
        (
            ["run", "--set", "compile=fast", "--", "x"],
            "choose from off, eager, aot_eager, aot_eager_decomp_",
        ),
        (["run", "--set", "compile", "--", "x"], "--set takes LAYER=VALUE"),
        (["run", "--with", "nowhere.toml", "--", "x"], "cannot read the variant nowhere.toml"),
        (["report", "nowhere"], "no run at nowhere"),
        (["rules", "compile/recompile-kv-cach"], "did you mean compile/recompile-kv-cache-in-training?"),
        (["rules", "nonsense"], "`trueup rules` lists them all"),
    ],
)
def test_a_mistake_is_explained(capsys, arguments, said):
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert said in output.err
    assert "Traceback" not in output.err
    assert "--help` for what it takes" in output.err.splitlines()[-1]


def test_no_command_at_all_shows_the_help(capsys):
    assert main([]) == 2
    assert "Commands:" in capsys.readouterr().err


def test_a_wrong_variant_file_names_the_setting(tmp_path, capsys):
    file = tmp_path / "variant.toml"
    file.write_text('layers = {gpu = "off"}')
    assert main(["run", "--with", str(file), "--", "x"]) == 2
    assert "no layer 'gpu' to set" in capsys.readouterr().err


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"trueup {__version__}\n"


def test_help_of_run_tells_the_contract(capsys):
    assert main(["run", "--help"]) == 0
    text = capsys.readouterr().out
    for option in ("--json", "--report", "--out", "--steps", "--timeout", "--with", "--set", "--strict", "--quiet"):
        assert option in text
    assert "[text|json|sarif|html]" in text
    assert "124" in text


def test_help_names_every_switch(capsys):
    from trueup.schema.variant import SWITCHES

    main(["run", "--help"])
    text = capsys.readouterr().out
    for layer, values in SWITCHES.items():
        assert f"{layer}={'|'.join(values)}" in text


def test_a_variant_with_an_unknown_remedy_is_refused_rather_than_ignored(tmp_path, capsys):
    file = tmp_path / "v.toml"
    file.write_text('remedies = ["disable-kv-cache", "disable-kv-cach"]\n')
    assert main(["run", "--with", str(file), "--", "true"]) == 2
    said = capsys.readouterr().err
    assert f"{file}: no remedy 'disable-kv-cach' that trueup can apply; did you mean disable-kv-cache" in said


def test_fix_needs_a_command(capsys):
    assert main(["fix"]) == 2
    assert "no command to repair" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--json", "FILE", "--"],
        ["run", "--report", "FILE.html", "--"],
        ["run", "--out", "FILE", "--"],
        ["fix", "--json", "FILE", "--"],
        ["fix", "--variant", "FILE", "--"],
        ["doctor", "--json", "FILE"],
        ["explain", "nowhere.log", "--json", "FILE"],
        ["report", "nowhere", "--json", "FILE"],
        ["rules", "--json", "FILE"],
    ],
)
def test_a_path_that_cannot_be_written_is_refused_before_the_work_starts(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blocked").write_text("")
    command = [each.replace("FILE", "blocked/x") for each in arguments]
    if command[-1] == "--":
        command += [sys.executable, "-c", "open('it_ran', 'w')"]
    assert main(command) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "blocked/x" in output.err
    assert "cannot write" in output.err
    assert os.listdir(tmp_path) == ["blocked"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_named(tmp_path, capsys):
    (tmp_path / "locked").mkdir(mode=0o500)
    assert main(["doctor", "--json", str(tmp_path / "locked" / "new" / "d.json")]) == 2
    assert f"{tmp_path / 'locked'} may not be written to" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ['remedy = ["disable-kv-cache"]', '[environment]\n"A=B" = "1"', '[environment]\n"" = "1"']
)
def test_a_variant_that_says_what_no_run_can_do_is_refused(tmp_path, capsys, text):
    file = tmp_path / "v.toml"
    file.write_text(text)
    assert main(["run", "--with", str(file), "--", "true"]) == 2
    assert capsys.readouterr().err.startswith("trueup run: ")


def test_fix_overwrites_no_variant_of_another(tmp_path, capsys):
    file = tmp_path / "mine.toml"
    file.write_text('[environment]\nMINE = "1"\n')
    assert main(["fix", "--variant", str(file), "--", "true"]) == 2
    assert "choose another file with --variant" in capsys.readouterr().err
    assert file.read_text() == '[environment]\nMINE = "1"\n'


@pytest.mark.parametrize("command", ["run", "fix", "verify"])
def test_a_working_folder_that_is_gone_is_said(tmp_path, monkeypatch, capsys, command):
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert main([command, "--", sys.executable, "-c", "pass"]) == 3
    assert "the working folder is not there any more" in capsys.readouterr().err
