"""Installed packages are those that Python itself reports, also where metadata is damaged."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hand_made import distribution, environment, write
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from trueup.environment.packages import installed, normalised
from trueup.rules.requirements import REQUIREMENT, applies_here, markers, unmet
from trueup.schema.environment import Environment


def packages_of(prefix: Path) -> dict:
    (site,) = (prefix / "lib").glob("python3*/site-packages")
    found, notes = installed([site])
    assert notes == ()
    return found


def test_of_this_environment():
    folders = dict.fromkeys(Path(each.locate_file("")) for each in importlib.metadata.distributions())
    found, _ = installed([folder for folder in folders if folder.is_dir()])
    by_python: dict[str, str] = {}
    for each in importlib.metadata.distributions():  # setuptools puts a folder of its own last on the path
        by_python.setdefault(normalised(each.name), each.version)
    assert {name: package.version for name, package in found.items()} == by_python


def test_requirements_that_are_not_met_are_those_of_pip_check(conflicting_environment):
    python = conflicting_environment / "bin" / "python"
    done = subprocess.run([python, "-m", "pip", "check"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    by_pip = set()
    for (
        line
    ) in done.stdout.splitlines():  # `peft 0.17.0 requires numpy, …`, `peft 0.17.0 has requirement accelerate>=…, …`
        words = line.split(" has requirement " if " has requirement " in line else " requires ", 1)
        name = words[1].split(",")[0].split(">")[0].split("=")[0].split("<")[0].strip()
        by_pip.add((words[0].split()[0], normalised(name)))
    facts = Environment(packages=packages_of(conflicting_environment), python="3.11.7", machine="x86_64")
    assert {(each.package.name, each.name) for each in unmet(facts)} == by_pip
    assert ("peft", "accelerate") in by_pip


def test_installer_origin_and_requirements(tmp_path):
    site = environment(tmp_path)
    url = '{"url": "https://someone:secret@example.org/flash_attn-2.8.3%2Bcu12torch2.8-cp311.whl", "archive_info": {}}'
    distribution(
        site, "Flash.Attn", "2.8.3", ["torch", "einops", 'ninja; extra == "dev"'], "uv", **{"direct_url.json": url}
    )
    package = packages_of(tmp_path)["flash-attn"]
    assert package.requires == ("torch", "einops")
    assert package.installer == "uv"
    assert package.origin == "https://example.org/flash_attn-2.8.3%2Bcu12torch2.8-cp311.whl"


@pytest.mark.parametrize(
    ("said", "origin"),
    [
        ('{"url": "file:///wheels/apex-0.1-cp311.whl", "archive_info": {}}', "apex-0.1-cp311.whl"),
        ('{"url": "file:///src/apex", "dir_info": {"editable": true}}', "editable /src/apex"),
        ('{"url": "https://h/apex", "vcs_info": {"vcs": "git", "commit_id": "abc"}}', "git+https://h/apex@abc"),
        ('{"url": ', None),
        ("[]", None),
    ],
)
def test_where_a_package_came_from(tmp_path, said, origin):
    distribution(environment(tmp_path), "apex", "0.1", **{"direct_url.json": said})
    assert packages_of(tmp_path)["apex"].origin == origin


def test_an_old_style_installation(tmp_path):
    site = environment(tmp_path)
    write(site, {"old-1.0.egg-info": "Metadata-Version: 1.0\nName: old\nVersion: 1.0\n\n"})
    write(
        site / "new-2.0.egg-info",
        {"PKG-INFO": "Name: new\nVersion: 2.0\n", "requires.txt": "torch>=2\n\n[dev]\nruff\n"},
    )
    found = packages_of(tmp_path)
    assert found["old"].version == "1.0"
    assert found["new"].requires == ("torch>=2",)


def test_windows_line_ends(tmp_path):
    site = environment(tmp_path)
    write(
        site / "x-1.0.dist-info",
        {"METADATA": b"Name: x\r\nVersion: 1.0\r\nRequires-Dist: torch\r\n\r\nRequires-Dist: no\r\n"},
    )
    assert packages_of(tmp_path)["x"].requires == ("torch",)


def broken(site: Path) -> tuple[dict, str]:
    found, notes = installed([site])
    return found, "\n".join(notes)


def test_missing_metadata(tmp_path):
    site = environment(tmp_path)
    distribution(site, "torch", "2.8.0+cu128").joinpath("METADATA").unlink()
    found, notes = broken(site)
    assert found["torch"].version == "2.8.0+cu128"
    assert "METADATA is missing" in notes


def test_metadata_that_is_no_text(tmp_path):
    site = environment(tmp_path)
    distribution(site, "vllm", "0.11.0").joinpath("METADATA").write_bytes(
        b"Name: vllm\nVersion: 0.11.0\nAuthor: \xff\xfe\n"
    )
    found, notes = broken(site)
    assert found["vllm"].version == "0.11.0"
    assert "no UTF-8, from byte 35" in notes


def test_a_folder_that_says_nothing(tmp_path):
    site = environment(tmp_path)
    (site / "-.dist-info").mkdir()
    found, notes = broken(site)
    assert found == {}
    assert "tells neither name nor version" in notes


def test_links_that_lead_nowhere(tmp_path):
    site = environment(tmp_path)
    (site / "gone-1.0.dist-info").symlink_to(tmp_path / "nowhere")
    (site / "circle-1.0.dist-info").symlink_to(site / "circle-1.0.dist-info")
    found, notes = broken(site)
    assert set(found) == {"gone", "circle"}
    assert notes.count("missing or unreadable") == 2


def test_two_versions_in_one_folder(tmp_path):
    site = environment(tmp_path)
    distribution(site, "torch", "2.7.1")
    distribution(site, "torch", "2.8.0")
    assert "torch is recorded twice" in broken(site)[1]


def test_the_first_folder_hides_the_second(tmp_path):
    first, second = environment(tmp_path / "a"), environment(tmp_path / "b")
    distribution(first, "transformers", "5.24.0")
    distribution(second, "transformers", "4.57.0")
    found, notes = installed([first, second])
    assert found["transformers"].version == "5.24.0"
    assert "hides 4.57.0" in "\n".join(notes)


def test_what_an_interrupted_pip_leaves(tmp_path):
    site = environment(tmp_path)
    distribution(site, "~orch", "2.8.0")
    found, notes = broken(site)
    assert found == {}
    assert "interrupted pip" in notes


def test_requirements_are_read_as_the_packaging_library_reads_them():
    facts = Environment(python="3.11.7", machine="x86_64", python_tag="cp311", platform="Linux 6.8")
    lines = [line for each in importlib.metadata.distributions() for line in each.requires or ()]
    assert len(lines) > 500
    for line in lines:
        by_library, found = Requirement(line), REQUIREMENT.fullmatch(line)
        if by_library.url is None:
            assert found is not None, line
            assert SpecifierSet(found["specifier"].strip().strip("()")) == by_library.specifier
            applies = by_library.marker is None or by_library.marker.evaluate(markers(facts))
            assert applies_here(found["marker"], facts) == applies, line


def test_what_is_no_regular_file_is_said_and_not_waited_for(tmp_path):
    site = tmp_path / "lib/python3.11/site-packages"
    for name in ("METADATA", "INSTALLER", "direct_url.json", "RECORD"):
        folder = distribution(
            site, f"with-{name.split('.')[0].lower()}", "1.0", {"METADATA": b"Name: x\nVersion: 1.0\n"}
        )
        folder.joinpath(name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
    os.mkfifo(site / "egg-2.0.egg-info")
    (site / "zero-3.0.egg-info").symlink_to("/dev/zero")
    os.mkfifo(site / "more.pth")
    found, notes = installed([site])
    assert {"with-metadata", "egg", "zero"} <= set(found)
    unreadable = [note for note in notes if "METADATA is missing or unreadable" in note]
    assert [note.partition(":")[0].rpartition("/")[2] for note in unreadable] == [
        "egg-2.0.egg-info", "with_metadata-1.0.dist-info", "zero-3.0.egg-info"
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "trueup", "doctor", "--env", tmp_path], capture_output=True, timeout=60, check=False
    )
    assert done.returncode in (0, 1), done.stderr
