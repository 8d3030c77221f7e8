"""The table of symbols and releases, against the torch that is installed."""

import pytest
from compiled import installed_torch

from trueup.environment import elf
from trueup.environment.ladder import Ladder, ladder
from trueup.environment.symbols import OF_TORCH_CUDA, is_stable, string_abi
from trueup.environment.torch_build import torch_facts

SMALL = Ladder(
    made="",
    by="",
    releases=("2.1", "2.2", "2.3", "2.10"),
    wheels=(),
    spans={
        "2.1-2.2": ("old",),
        "2.2-2.10": ("new",),
        "2.3": ("only",),
        "2.2-2.3": ("middle",),
        "2.1,2.3-2.10": ("twice",),
    },
)


@pytest.mark.parametrize(
    ("symbols", "built_for", "in_words"),
    [
        ([], None, None),
        (["printf"], None, None),
        (["old"], "<2.3", "torch 2.2 or older"),
        (["new"], ">=2.2", "torch 2.2 or newer"),
        (["old", "new"], ">=2.2,<2.3", "torch 2.2"),
        (["only", "new"], ">=2.3,<2.10", "torch 2.3"),
        (["middle"], ">=2.2,<2.10", "torch 2.2 to 2.3"),
        (["twice"], "!=2.2.*", None),
        (["old", "only"], None, None),
    ],
)
def test_ranges(symbols, built_for, in_words):
    assert SMALL.built_for(symbols) == built_for
    assert SMALL.in_words(symbols) == in_words


def test_the_table_is_what_the_installed_torch_exports():
    """Made from wheels of another machine; on this one the same symbols are there, and the same are not."""
    folder = installed_torch()
    facts = torch_facts(folder)
    assert facts is not None
    release = ".".join(facts.version.split(".")[:2])
    if release not in ladder().releases:
        pytest.skip(f"the table does not know torch {release} yet")
    files = ("libc10.so", "libtorch_cpu.so", "libtorch_python.so", "libtorch.so")
    exported = set().union(*(elf.read(folder / "lib" / name).exports() for name in files))
    names = [name for names in ladder().spans.values() for name in names if not OF_TORCH_CUDA.match(name)]
    wrong = [name for name in names if (release in ladder().releases_with([name])) != (name.encode() in exported)]
    assert len(names) > 3000
    # A few of them depend on the build: symbols of the vector instructions and of the libraries it was built with.
    assert len(wrong) <= len(names) // 100, wrong


def test_every_span_is_of_known_releases():
    table = ladder()
    for span, names in table.spans.items():
        assert table.releases_with([names[0]]), span
        assert len(table.releases_with([names[0]])) < len(table.releases)
    listed = [name for names in table.spans.values() for name in names]
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("names", "abi"),
    [
        (["_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"], "old"),
        (["_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"], "cxx11"),
        (["_ZNK3c106Device3strB5cxx11Ev"], "cxx11"),
        (["_ZN2at3ClassSsort4callEv", "_ZNKSs4sizeEv"], "none"),
        ([], "none"),
    ],
)
def test_string_abi_of_what_is_asked_of_torch(names, abi):
    assert string_abi(names) == abi


def test_the_stable_abi_is_c_functions_only():
    assert is_stable(["aoti_torch_get_dim", "torch_call_dispatcher", "malloc", "cudaMalloc"])
    assert not is_stable(["aoti_torch_get_dim", "_ZN3c105ErrorD1Ev"])
    assert not is_stable(["malloc"])
