"""The wheels of one package that are worth considering: the newest of every combination."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from trueup.environment.wheels.filename import WheelName
from trueup.environment.wheels.knowledge import Added, Known
from trueup.environment.wheels.matrix import Project, Release, Wheel, gpu_code, wheels
from trueup.environment.wheels.torch_release import default_string_abi


def published(project: Project, known: Known, asked: SpecifierSet) -> Iterator[Wheel]:
    """All wheels of the releases that were asked for, the newest release first."""
    for release in project.releases:
        if not asked.contains(release.version, prereleases=True):
            continue
        yield from wheels(project, release, known.distribution)
        yield from (_added(project, release, added) for added in known.added if added.tag == f"v{release.version}")


def newest_of_each(found: Iterator[Wheel]) -> tuple[list[Wheel], int]:
    """(the newest sound wheel of every combination, and all newer ones that are mislabelled; how many were left out)"""
    kept: list[Wheel] = []
    served = set()
    superseded = 0
    for wheel in found:
        if wheel.combination in served:
            superseded += 1
            continue
        kept.append(wheel)
        if wheel.is_as_labelled:
            served.add(wheel.combination)
    return kept, superseded


def _added(project: Project, release: Release, added: Added) -> Wheel:
    """A wheel that the workflow does not list; what is known of its build stands beside its name."""
    name = WheelName.parse(added.file)
    toolkit = added.like.cuda
    machine = name.tag.platform.removeprefix("linux_")
    assert name.label is not None
    return Wheel(
        name=name,
        repository=project.repository,
        tag=added.tag,
        torch=added.like.torch,
        cuda=toolkit,
        image=added.like.image,
        gpu_code=gpu_code(release.gpu_code, toolkit),
        string_abi="cxx11"
        if name.label.cxx11_abi
        else default_string_abi(Version(added.like.torch), added.like.build, machine),
        torch_build=added.like.build,
        evidence="reported",
    )
