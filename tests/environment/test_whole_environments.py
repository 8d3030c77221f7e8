"""Whole environments, from their files to the findings: healthy ones, and ones of which parts are gone."""

import sys
from pathlib import Path

import pytest
from hand_made import SITE, distribution, environment, machine, write

from trueup.environment.collecting import collect
from trueup.environment.host import Host
from trueup.environment.target import of_folder, of_python
from trueup.rules import judge_environment
from trueup.schema.environment import Environment


@pytest.fixture
def bare(tmp_path) -> Host:
    """This machine for a user who configured nothing."""
    return Host(variables={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C"}, folder=tmp_path)


def found_in(facts: Environment) -> list[str]:
    return [f"{finding.severity} {finding.rule}" for finding in judge_environment(facts)]


def serious(facts: Environment) -> list[str]:
    return [finding for finding in found_in(facts) if not finding.startswith("note ")]


def test_this_environment_is_healthy(bare):
    facts = collect(of_python(bare, sys.executable, "--python"), bare)
    assert serious(facts) == []
    assert facts.torch is not None
    assert facts.packages["torch"].version == facts.torch.version


def test_a_fresh_environment_is_healthy(fresh_environment, bare):
    facts = collect(of_folder(fresh_environment, "--env"), bare)
    assert found_in(facts) == []
    assert (facts.torch, facts.notes) == (None, ())


def test_the_python_of_the_system_is_healthy(bare):
    if not Path("/usr/bin/python3").exists():
        pytest.skip("no /usr/bin/python3 here")
    facts = collect(of_python(Host(), "/usr/bin/python3", "--python"), bare)
    assert serious(facts) == []


def test_what_pip_check_would_say(conflicting_environment, bare):
    facts = collect(of_folder(conflicting_environment, "--env"), bare)
    assert found_in(facts) == ["warning environment/installed-versions-conflict"]
    (finding,) = judge_environment(facts)
    assert "peft 0.17.0 needs accelerate>=0.21.0, and accelerate 0.20.3 is installed" in finding.message
    assert f"{conflicting_environment}/bin/python -m pip install 'accelerate>=0.21.0'" in finding.remedies[0].how


def broken(tmp_path: Path) -> Environment:
    return collect(of_folder(tmp_path / "env", "--env"), machine(tmp_path))


def test_a_torch_folder_without_its_version(tmp_path):
    site = environment(tmp_path / "env")
    distribution(site, "torch", "2.8.0")
    write(site, {"torch/__init__.py": "", "torch/lib/libc10.so": b"\x7fELF"})
    facts = broken(tmp_path)
    assert facts.packages["torch"].version == "2.8.0"
    assert facts.torch is None or facts.torch.version == "2.8.0"


def test_a_torch_whose_version_is_no_python(tmp_path):
    site = environment(tmp_path / "env")
    write(site, {"torch/version.py": b"\xff\xfe__version__ = (\n"})
    assert broken(tmp_path).torch is None


def test_metadata_of_a_torch_whose_folder_is_gone(tmp_path):
    distribution(environment(tmp_path / "env"), "torch", "2.8.0")
    facts = broken(tmp_path)
    assert (facts.torch, facts.packages["torch"].version) == (None, "2.8.0")


def test_an_interpreter_that_is_gone(tmp_path):
    environment(tmp_path / "env")
    (tmp_path / "env/bin/python").unlink()
    (tmp_path / "env/bin/python").symlink_to("/nonexistent/python3.11")
    facts = broken(tmp_path)
    assert facts.python == "3.11.7"
    assert any("a link to an interpreter that is gone" in note for note in facts.notes)


def test_an_environment_without_anything(tmp_path):
    write(tmp_path / "env", {"pyvenv.cfg": b"\xff\x00 no key\n"})
    facts = broken(tmp_path)
    assert (facts.python, facts.packages, facts.extensions) == (None, {}, ())
    assert any("no standard library" in note for note in facts.notes)


def test_files_where_folders_should_be(tmp_path):
    write(
        tmp_path / "env", {"pyvenv.cfg": "version = 3.11.7\n", SITE: "a file", "bin": "a file", "conda-meta": "a file"}
    )
    assert broken(tmp_path).packages == {}


def test_a_package_folder_that_is_huge_text(tmp_path):
    site = environment(tmp_path / "env")
    write(site / "big-1.0.dist-info", {"METADATA": b"Name: big\nVersion: 1.0\n" + b"x" * (1 << 20)})
    write(site, {"long.pth": "\0" * 5000 + "\n" + "y" * 5000 + "\n/etc/passwd\n"})
    assert broken(tmp_path).packages["big"].version == "1.0"
