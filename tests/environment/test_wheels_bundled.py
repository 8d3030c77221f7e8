"""bitsandbytes: one wheel with a library for each CUDA, held against environments, and against the wheel itself."""

import pytest

from trueup.environment.wheels.matrix import table
from trueup.environment.wheels.resolving import resolve
from trueup.schema.environment import Environment, Gpu, Tool, Torch


def environment(cuda: str | None, torch: str = "2.8.0", python: str = "cp311", glibc: str = "2.35") -> Environment:
    local = "cpu" if cuda is None else f"cu{cuda.replace('.', '')}"
    return Environment(
        python_tag=python,
        executable="/env/bin/python",
        platform="Linux 6.1.0",
        machine="x86_64",
        torch=Torch(version=f"{torch}+{local}", cuda=cuda, string_abi="cxx11"),
        gpus=() if cuda is None else (Gpu(index=0, name="NVIDIA H100", compute_capability="9.0"),),
        tools={"glibc": Tool(name="glibc", version=glibc)},
    )


def newest_with(cuda: str) -> str:
    return next(each.version for each in table().bundled["bitsandbytes"].releases if cuda in each.cuda)


@pytest.mark.parametrize("cuda", ["12.8", "13.0"])
def test_the_newest_release_with_a_library_of_that_cuda(cuda):
    said = resolve(environment(cuda), "bitsandbytes")
    assert said.verdict == "fits"
    assert said.chosen.version == newest_with(cuda.replace(".", ""))
    assert said.ways[0].commands["pip"] == f"/env/bin/python -m pip install bitsandbytes=={said.chosen.version}"
    assert said.chosen.cautions == ()


def test_a_library_of_its_own_goes_before_the_nearest_one():
    """0.50.2 holds none for 12.9 and takes that for 12.8 with a warning; 0.49.2 holds one."""
    said = resolve(environment("12.9"), "bnb")
    assert said.chosen.version == newest_with("129")
    nearest = next(each for each in said.candidates if each.version == "0.50.2")
    assert nearest.rejections == ()
    assert "takes the one for 12.8" in nearest.cautions[0]


def test_releases_that_do_not_look_further_are_rejected_for_a_cuda_that_they_lack():
    said = resolve(environment("13.0"), "bitsandbytes<0.48")
    assert (said.verdict, said.chosen) == ("no-wheel", None)
    assert {rejection.axis for each in said.candidates for rejection in each.rejections} == {"cuda"}


def test_a_torch_without_cuda_has_a_library_for_cpus():
    said = resolve(environment(None), "bitsandbytes")
    assert said.verdict == "fits"
    assert "CPUs" in said.ways[0].cost


@pytest.mark.parametrize(
    ("change", "axis"),
    [({"glibc": "2.17"}, "glibc"), ({"torch": "1.13.1"}, "torch"), ({"python": "cp37"}, "python")],
)
def test_reasons_against_all(change, axis):
    said = resolve(environment("12.8", **change), "bitsandbytes>=0.45")
    assert said.verdict == "no-wheel"
    assert all(axis in {rejection.axis for rejection in each.rejections} for each in said.candidates)


@pytest.mark.network
def test_the_table_says_what_the_wheel_holds(store):
    from registry_wheels import unpacked

    folder = unpacked(store, "bitsandbytes==0.50.2") / "bitsandbytes"
    held = sorted(path.stem.partition("_cuda")[2] for path in folder.glob("libbitsandbytes_cuda*.so"))
    release = next(each for each in table().bundled["bitsandbytes"].releases if each.version == "0.50.2")
    assert list(release.cuda) == held
