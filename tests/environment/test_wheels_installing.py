"""What installing a package would move: from the table, from what is installed, and from the index through real pip."""

import pytest
from packaging.requirements import Requirement

from trueup.environment.markers import markers
from trueup.environment.wheels import index
from trueup.environment.wheels.dependencies import resolve_any
from trueup.environment.wheels.index import IndexFailed, ask
from trueup.environment.wheels.installing import moves
from trueup.environment.wheels.knowledge import UnknownPackage
from trueup.environment.wheels.offers import Offer, table
from trueup.environment.wheels.resolving import resolve
from trueup.schema.environment import Environment, Extension, Package, Tool

PINS = {
    "torch": ("2.6.0+cu124", ()),
    "torchvision": ("0.21.0", ("torch==2.6.0",)),
    "peft": ("0.15.0", ("torch>=1.13", "transformers<4.50")),
    "transformers": ("4.49.0", ("numpy>=1.17",)),
    "numpy": ("1.26.4", ()),
    "broken": ("no version", ("torch==", "???")),
    "flash-attn": ("2.7.4", ("torch", "einops")),
}


def environment(**changes) -> Environment:
    """An older training environment: versions of early 2025."""
    packages = {
        name: Package(name=name, version=version, requires=requires) for name, (version, requires) in PINS.items()
    }
    facts = {
        "python": "3.11.7",
        "python_tag": "cp311",
        "executable": "/env/bin/python",
        "platform": "Linux 6.1.0",
        "machine": "x86_64",
        "tools": {"glibc": Tool(name="glibc", version="2.35")},
        "extensions": (Extension(file="flash_attn_2_cuda.so", package="flash-attn"),),
    }
    return Environment(**{**facts, "packages": packages, **changes})


def offer(*requires: str, name: str = "wanted", version: str = "1.0") -> Offer:
    return Offer(name=name, version=version, requires=requires)


def moved(*offers: Offer) -> dict[str, str]:
    return {move.package: move.because for move in moves(environment(), offers)}


def test_what_does_not_meet_a_requirement_moves_and_torch_is_told_first():
    found = moves(environment(), [offer("numpy>=2", "torch==2.8.0", "transformers>=4.40")])
    assert [(move.package, move.wanted) for move in found] == [("torch", "==2.8.0"), ("numpy", ">=2")]
    assert found[0].because == "wanted 1.0 requires torch==2.8.0"
    assert found[0].breaks == (
        "torchvision 0.21.0, which requires torch==2.6.0",
        "flash-attn, which is compiled against torch 2.6.0+cu124",
    )
    assert found[1].breaks == ()


def test_the_local_part_of_a_version_is_no_difference():
    assert moved(offer("torch==2.6.0", "torch>=2.6")) == {}


def test_requirements_for_other_machines_pythons_and_extras_do_not_count():
    lines = ["torch==9; sys_platform == 'win32'", "torch==9; python_version < '3.11'", "torch==9; extra == 'gpu'"]
    assert moved(offer(*lines)) == {}


def test_what_a_dependency_would_bring_moves_too():
    brought = offer("torch==2.9.0", name="middle", version="3")
    assert moved(offer("middle==3"), brought) == {"torch": "middle 3 requires torch==2.9.0"}


def test_lines_that_are_no_requirements_are_left_out():
    assert moved(offer("torch==", "???", "", "\0", "broken>=2")) == {}


def test_another_release_of_what_is_installed_breaks_those_that_pin_it():
    (found,) = moves(environment(), [offer(name="transformers", version="5.24.0")])
    assert (found.package, found.breaks) == ("transformers", ("peft 0.15.0, which requires transformers<4.50",))


def test_the_markers_are_those_of_the_environment_that_is_looked_at():
    known = markers(environment(python="3.13.1", machine="aarch64"))
    assert Requirement("x; python_version >= '3.13' and platform_machine == 'aarch64'").marker.evaluate(known)


def newest(name: str) -> str:
    return next(release.version for release in table().releases if release.name == name)


def test_a_package_that_pins_torch_by_the_table():
    said = resolve(environment(), "vllm")
    assert (said.verdict, said.moves[0].package) == ("moves", "torch")
    assert said.moves[0].because.startswith(f"vllm {newest('vllm')} requires torch==")
    line = said.ways[0].commands["pip"]
    assert line.startswith("/env/bin/python -m pip install vllm torch==2.6.0+cu124 ")
    assert said.ways[0].commands["uv"].startswith("uv pip install --python /env/bin/python vllm torch==2.6.0+cu124 ")
    assert [way.kind for way in said.ways] == ["keep", "apart"], "what is compiled for one torch loads in no other"
    assert f"read from the table of {table().made}, not from the index" in said.notes[0]


def test_a_package_that_moves_others_may_be_installed_alone():
    def pinning(requirements, environment):
        return (offer("numpy>=2", name="top"),)

    said = resolve_any(environment(), "top", pinning)
    assert [way.kind for way in said.ways] == ["keep", "keep", "apart"]
    assert said.ways[1].commands["pip"] == "/env/bin/python -m pip install --no-deps top==1.0"


def test_torch_itself_is_not_followed():
    def asked_once(requirements, environment):
        assert list(requirements) == ["top"]
        return (offer("torch==2.9.0", "nvidia-nccl-cu12>=2", "triton>=3", name="top"),)

    assert resolve_any(environment(), "top", asked_once).moves[0].package == "torch"


def test_a_package_that_moves_nothing_by_the_table():
    said = resolve(environment(), "accelerate")
    assert (said.verdict, said.moves) == ("fits", ())
    assert "torch==2.6.0+cu124" in said.ways[0].commands["pip"]


def test_a_package_of_which_only_the_installed_release_is_known():
    said = resolve(environment(), "peft==0.15.0")
    assert (said.verdict, said.installed) == ("fits", "0.15.0")
    assert "read from what is installed" in said.notes[0]


UNKNOWN = ("no-such-thing", "vllm==0.0.7", "vllm==", "vllm @ https://host/vllm.whl", "-r x", "")


@pytest.mark.parametrize("asked", UNKNOWN)
def test_what_is_not_known_is_said(asked):
    with pytest.raises(UnknownPackage, match=r"online|not a package|an address"):
        resolve(environment(), asked)


def test_an_index_that_does_not_answer_leaves_the_table():
    def silent(requirements, environment):
        raise IndexFailed("no route")

    said = resolve_any(environment(), "vllm", silent)
    assert said.verdict == "moves"
    assert "no route" in said.notes[-1]
    with pytest.raises(UnknownPackage, match="no route"):
        resolve_any(environment(), "no-such-thing", silent)


def test_what_the_index_knows_of_dependencies_is_followed_and_the_rest_is_told():
    known = {
        "top": offer("middle", "lost>=1", name="top"),
        "middle": offer("torch>=2.8", name="middle"),
    }

    def some(requirements, environment):
        names = [Requirement(each).name for each in requirements]
        if "lost" in names:
            raise IndexFailed("no wheel")
        return tuple(known[name] for name in names)

    said = resolve_any(environment(), "top", some)
    assert said.notes[-1] == "what these would move is not known: lost"
    assert [move.because for move in said.moves] == ["middle 1.0 requires torch>=2.8"]


@pytest.mark.network
@pytest.mark.timeout(400)
def test_the_index_is_asked_through_pip():
    """torchvision 0.24.1 is for torch 2.9.1 alone; the wheel for this Python is 8 MB where pip must load it whole."""
    try:
        (found,) = ask(["torchvision==0.24.1"], environment())
    except IndexFailed as error:
        if "connection" in str(error).lower():
            pytest.skip(f"the registry is not reached: {error}")
        raise
    assert (found.name, found.version, found.read) == ("torchvision", "0.24.1", "the index")
    assert moved(found)["torch"] == "torchvision 0.24.1 requires torch==2.9.1"


@pytest.mark.network
def test_an_index_without_the_release(monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "/nonexistent")
    with pytest.raises(IndexFailed, match="No matching distribution"):
        ask(["no-such-distribution-of-trueup==1"], environment())


def test_a_pip_that_says_nonsense(monkeypatch):
    for code in ("print('{')", "print('[]')", "print('{\"install\": [{}]}')"):
        monkeypatch.setattr(index, "_pip", lambda code=code: [index.sys.executable, "-c", code])
        with pytest.raises(IndexFailed, match="not understood"):
            ask(["torch"], environment())


def test_no_pip_at_all(monkeypatch):
    monkeypatch.setattr(index, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(IndexFailed, match="no pip"):
        ask(["torch"], environment())
