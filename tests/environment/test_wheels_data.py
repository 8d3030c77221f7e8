"""The tables of wheels: whole, each fact with its source, each name one that parses."""

import re
from datetime import date

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from trueup.environment.wheels.candidates import published
from trueup.environment.wheels.filename import WheelName
from trueup.environment.wheels.fitting import BUILT_ON_GLIBC
from trueup.environment.wheels.knowledge import named, packages
from trueup.environment.wheels.matrix import table, torch_build
from trueup.environment.wheels.torch_release import default_string_abi

RELEASED = [name for name, known in packages().items() if known.kind == "released"]


def test_the_tables_know_the_same_packages():
    assert sorted(table().projects) == sorted(RELEASED)
    assert list(table().pinned) == [name for name, known in packages().items() if known.kind == "pinned"]
    assert list(table().bundled) == [name for name, known in packages().items() if known.kind == "bundled"]


def test_wheels_with_a_library_for_each_cuda_are_in_order_and_whole():
    for project in table().bundled.values():
        versions = [Version(release.version) for release in project.releases]
        assert versions == sorted(set(versions), reverse=True)
        for release in project.releases:
            assert date.fromisoformat(release.date) <= date.fromisoformat(project.seen)
            assert release.version in release.file
            assert SpecifierSet(release.torch).contains("2.10")
            assert len(release.cuda) >= 5
            assert all(re.fullmatch(r"1[123]\d", cuda) for cuda in release.cuda)


def test_the_table_of_requirements_says_when_and_from_what_it_was_made():
    from packaging.requirements import Requirement

    from trueup.environment.wheels.offers import table as requirements

    assert requirements().by == "scripts/requirement_table.py"
    date.fromisoformat(requirements().made)
    assert len({release.name for release in requirements().releases}) == len(requirements().releases) >= 30
    for release in requirements().releases:
        Version(release.version)
        assert all(Requirement(line) for line in release.requires)


def test_releases_for_one_torch_are_in_order_and_whole():
    for project in table().pinned.values():
        versions = [Version(release.version) for release in project.releases]
        assert versions == sorted(set(versions), reverse=True)
        for release in project.releases:
            assert len(SpecifierSet(release.torch)) == 1
            assert release.builds
            assert all(re.fullmatch(r"1\d\d", build) for build in release.builds)


def test_the_table_says_when_and_from_what_it_was_made():
    assert table().by == "scripts/publish_matrix.py"
    made = date.fromisoformat(table().made)
    for project in table().projects.values():
        assert date.fromisoformat(project.seen) <= made
        assert re.fullmatch("[0-9a-f]{40}", project.commit)


@pytest.mark.parametrize("package", RELEASED)
def test_releases_are_in_order_and_their_axes_are_known(package):
    releases = table().projects[package].releases
    versions = [Version(release.version) for release in releases]
    assert versions == sorted(set(versions), reverse=True)
    for release in releases:
        assert re.fullmatch("[0-9a-f]{40}", release.commit)
        assert set(release.abi) <= {"TRUE", "FALSE"}
        assert {image.removesuffix("-arm") for image in release.image} <= BUILT_ON_GLIBC.keys()
        assert release.label in ("major", "minor")
        assert release.gpu_code
        assert all(re.fullmatch(r"sm_\d+a?", each.code) for each in release.gpu_code)
        axes = {"python", "torch", "cuda", "abi", "image"}
        assert all(rule.keys() <= axes for rule in release.exclude)
        assert any(True for _ in release.cells())


@pytest.mark.parametrize("package", RELEASED)
def test_every_wheel_has_a_name_that_parses_and_an_address_at_its_project(package):
    project = table().projects[package]
    seen = set()
    for wheel in published(project, packages()[package], SpecifierSet()):
        assert WheelName.parse(str(wheel.name)) == wheel.name
        assert wheel.url.startswith(f"{project.repository}/releases/download/v{wheel.name.version}/")
        assert "+" not in wheel.url
        assert wheel.gpu_code
        seen.add(str(wheel.name))
    assert len(seen) > 1000


def test_names_that_public_install_lines_use_are_in_the_table():
    names = {
        str(wheel.name) for wheel in published(table().projects["flash-attn"], packages()["flash-attn"], SpecifierSet())
    }
    assert names >= {
        "flash_attn-2.8.3.post1+cu12torch2.8cxx11abiTRUE-cp310-cp310-linux_x86_64.whl",
        "flash_attn-2.8.2+cu12torch2.6cxx11abiFALSE-cp311-cp311-linux_x86_64.whl",
        "flash_attn-2.7.4.post1+cu12torch2.6cxx11abiFALSE-cp311-cp311-linux_x86_64.whl",
        "flash_attn-2.6.3+cu123torch2.4cxx11abiTRUE-cp311-cp311-linux_x86_64.whl",
        "flash_attn-2.6.1+cu118torch2.1cxx11abiTRUE-cp310-cp310-linux_x86_64.whl",
        "flash_attn-2.2.1+cu118torch2.0cxx11abiFALSE-cp310-cp310-linux_x86_64.whl",
        "flash_attn-2.8.3+cu12torch2.9cxx11abiTRUE-cp312-cp312-linux_x86_64.whl",
    }
    # asked for in upstream issues 2212, 2248 and 935, because they do not exist
    assert not names & {
        "flash_attn-2.8.3+cu12torch2.9cxx11abiTRUE-cp311-cp311-linux_x86_64.whl",
        "flash_attn-2.8.3+cu12torch2.10cxx11abiTRUE-cp312-cp312-linux_x86_64.whl",
        "flash_attn-2.5.8+cu122torch2.3cxx11abiFALSE-cp312-cp312-linux_x86_64.whl",
    }


def test_the_newest_release_has_as_many_wheels_as_were_counted_upstream():
    """48 of the 50 files of v2.8.3.post1 carry its version in their name."""
    project = table().projects["flash-attn"]
    assert len(list(published(project, packages()["flash-attn"], SpecifierSet("==2.8.3.post1")))) == 48


def test_every_fact_has_a_source():
    for known in packages().values():
        parts = [known, *known.added, *known.glibc, known.build, known.index, known.hub]
        for part in parts:
            if part is not None:
                assert part.sources
                assert all(re.fullmatch(r"https://\S+", source) for source in part.sources)
        assert known.unverified
        date.fromisoformat(known.seen)


def test_every_package_is_found_by_name_and_alias_and_no_alias_is_two():
    names = [name for package, known in packages().items() for name in (package, *known.aliases)]
    assert len(names) == len(set(names))
    for package, known in packages().items():
        for name in (package, package.replace("-", "_").upper(), *known.aliases):
            assert named(name)[0] == package


@pytest.mark.parametrize(
    ("torch", "build", "machine", "abi"),
    [
        ("2.5.1", "124", "x86_64", "old"),
        ("2.6.0", "118", "x86_64", "old"),
        ("2.6.0", "124", "x86_64", "old"),
        ("2.6.0", "126", "x86_64", "cxx11"),
        ("2.6.0", None, "aarch64", "cxx11"),
        ("2.7.0", "118", "x86_64", "cxx11"),
        ("2.10.0", "130", "x86_64", "cxx11"),
    ],
)
def test_the_string_abi_of_official_builds(torch, build, machine, abi):
    assert default_string_abi(Version(torch), build, machine) == abi


@pytest.mark.parametrize(
    ("builds", "toolkit", "build"),
    [
        (("118", "124", "126"), "12.9.1", "126"),
        (("118", "124", "126"), "12.4.1", "124"),
        (("118", "124"), "12.3.2", "124"),
        (("118", "124"), "11.8.0", "118"),
        (("126", "128", "130"), "12.9.1", "128"),
        ((), "12.4.1", None),
    ],
)
def test_the_build_of_torch_that_a_workflow_takes(builds, toolkit, build):
    assert torch_build(builds, Version(toolkit)) == build
