"""Compiled modules against the installed torch: each verdict beside what the loader of this machine says."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from compiled import NEW_CHECK, OLD_CHECK, calling, compiled, installed, installed_torch, variables

from trueup.environment.extensions import extensions
from trueup.environment.host import Host
from trueup.schema.environment import Extension

LINK = "-Wl,--allow-shlib-undefined"


class Site:
    """A folder of packages beside the installed torch, with modules that are compiled into it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.packages = folder, folder / "site-packages"
        self.packages.mkdir()
        self.torch = installed_torch()
        libraries = ("libc10.so", "libtorch_cpu.so", "libtorch.so")
        self.linked = [LINK, "-Wl,--no-as-needed", *(str(self.torch / "lib" / name) for name in libraries)]

    def module(self, name: str, source: str, *options: str) -> Path:
        return compiled(self.packages / name, source, *options, *self.linked)

    def judged(self, **environment: str) -> dict[str, Extension]:
        host = Host(variables=variables(self.folder, **environment))
        found, notes = extensions([self.packages], self.torch, executable=Path(sys.executable), host=host)
        assert notes == ()
        return {extension.file: extension for extension in found}

    def one(self, **environment: str) -> Extension:
        (extension,) = self.judged(**environment).values()
        return extension


@pytest.fixture
def site(tmp_path) -> Site:
    return Site(tmp_path)


def says_nothing(extension: Extension) -> bool:
    return not (extension.missing_libraries or extension.missing_symbols or extension.missing_versions)


def test_a_module_that_fits(site):
    site.module("fits/_C.cpython-311-x86_64-linux-gnu.so", calling(NEW_CHECK, "PyList_New", "malloc"))
    installed(site.packages, "fits")
    extension = site.one()
    assert says_nothing(extension)
    assert extension.file == "fits/_C.cpython-311-x86_64-linux-gnu.so"
    assert (extension.package, extension.python_tag, extension.string_abi) == ("fits", "cp311", "cxx11")
    assert extension.machine == os.uname().machine
    assert {"libc10.so", "libtorch_cpu.so"} <= set(extension.needed)
    assert not extension.stable_abi


def test_the_old_string_abi(site):
    site.module("_C.so", calling(OLD_CHECK, NEW_CHECK.replace("jRKNSt7__cxx11", "jRKNSt9__nothing")))
    extension = site.one()
    assert extension.string_abi == "old"
    assert (
        "c10::detail::torchCheckFail(char const*, char const*, unsigned int, std::string const&)"
        in extension.missing_symbols
    )


def test_a_missing_symbol_and_a_weak_one(site):
    site.module("_C.so", calling("_ZN2at4_ops11never_there4callEv", NEW_CHECK, weak=("_ZN2at4_ops8optional4callEv",)))
    assert site.one().missing_symbols == ("at::_ops::never_there::call()",)


def test_the_torch_that_it_was_built_for(site):
    # The first came with torch 2.4, the second went with 2.13.
    site.module("_C.so", calling("_ZN3c1021warnDeprecatedDataPtrEv", "_ZN5torch8autograd10deleteNodeEPNS0_4NodeE"))
    extension = site.one()
    assert extension.built_for_torch == ">=2.4,<2.13"
    assert "torch::autograd::deleteNode(torch::autograd::Node*)" in extension.missing_symbols


def test_symbols_of_cuda_without_cuda(site):
    if (site.torch / "lib" / "libc10_cuda.so").exists():
        pytest.skip("the installed torch has CUDA")
    names = ("_ZN3c104cuda9SetDeviceEab", "_ZN2at4cuda20getCurrentCUDAStreamEv", "cudaMalloc", "cublasSgemm_v2")
    site.module("_C.so", calling(*names, NEW_CHECK))
    extension = site.one()
    assert len(extension.missing_symbols) == 4
    assert set(extension.missing_cuda_symbols) == set(extension.missing_symbols)
    assert extension.built_for_torch == ">=2.8"


def test_a_symbol_of_an_older_torch_is_not_taken_for_cuda(site):
    if (site.torch / "lib" / "libc10_cuda.so").exists():
        pytest.skip("the installed torch has CUDA")
    site.module("_C.so", calling("_ZN3c104cuda9SetDeviceEa", "_ZN5torch8autograd10deleteNodeEPNS0_4NodeE"))
    extension = site.one()
    assert extension.missing_cuda_symbols == ("c10::cuda::SetDevice(signed char)",)
    assert len(extension.missing_symbols) == 2


def test_a_missing_library_and_what_it_may_define(site, tmp_path):
    other = compiled(tmp_path / "elsewhere" / "libother.so.2", "void other(void) {}", "-Wl,-soname,libother.so.2")
    site.module("_C.so", calling("other", NEW_CHECK), str(other))
    extension = site.one()
    assert extension.missing_libraries == ("libother.so.2",)
    assert extension.missing_symbols == ()
    assert says_nothing(site.one(LD_LIBRARY_PATH=str(other.parent)))


@pytest.mark.parametrize("tags", ["-Wl,--enable-new-dtags", "-Wl,--disable-new-dtags"])
def test_libraries_that_a_wheel_brings_along(site, tags):
    """Found by RUNPATH or RPATH relative to the module; RPATH counts for the libraries of a library, too."""
    inner = compiled(site.packages / "pack.libs" / "libinner-1a2b.so.1", "void inner(void) {}")
    outer = compiled(
        site.packages / "pack.libs" / "libouter-3c4d.so.1",
        calling("inner") + "void outer(void) { entry(); }\n",
        *(str(inner), "-Wl,-soname,libouter-3c4d.so.1", tags, "-Wl,-rpath,$ORIGIN"),
    )
    site.module("pack/_C.so", calling("outer", NEW_CHECK), str(outer), tags, "-Wl,-rpath,$ORIGIN/../pack.libs")
    assert says_nothing(site.judged()["pack/_C.so"])


def test_a_library_that_the_package_loads_by_itself(site):
    beside = compiled(site.packages / "pack" / "libplugin.so", "void plugin(void) {}")
    site.module("pack/_C.so", calling("plugin", NEW_CHECK))
    assert says_nothing(site.one())
    beside.unlink()
    assert site.one().missing_symbols == ("plugin",)


def test_a_newer_c_library(site, tmp_path):
    """Linked against a stand-in of a libc that offers a version which no real one has."""
    script = tmp_path / "versions"
    script.write_text("GLIBC_2.99 { global: from_the_future; };\n")
    libc = compiled(
        tmp_path / "future" / "libc.so.6",
        "void from_the_future(void) {}",
        *("-nostdlib", "-Wl,-soname,libc.so.6", f"-Wl,--version-script={script}"),
    )
    site.module("_C.so", calling("from_the_future", NEW_CHECK), "-nostdlib", str(libc))
    extension = site.one()
    assert extension.missing_versions == ("GLIBC_2.99",)
    assert extension.missing_libraries == ()


def test_the_stable_abi(site):
    site.module("_C.abi3.so", calling("aoti_torch_get_dim", "torch_library_init_impl"))
    extension = site.one()
    assert extension.stable_abi
    assert (extension.python_tag, extension.string_abi) == ("abi3", "none")


def test_a_module_of_another_machine_is_named_and_not_judged(site):
    path = site.module("_C.so", calling("_ZN2at4_ops11never_there4callEv"))
    data = bytearray(path.read_bytes())
    data[18:20] = (183 if os.uname().machine == "x86_64" else 62).to_bytes(2, "little")
    path.write_bytes(data)
    extension = site.one()
    assert extension.machine != os.uname().machine
    assert says_nothing(extension)


def test_what_does_not_ask_for_torch_is_left_out(site):
    compiled(site.packages / "plain" / "_plain.so", calling("malloc"))
    compiled(site.packages / "plain" / "linked_to_nothing.so", calling(NEW_CHECK))
    assert list(site.judged()) == ["plain/linked_to_nothing.so"]


def test_without_torch_nothing_is_said_of_its_symbols(site):
    site.module("_C.so", calling("_ZN2at4_ops11never_there4callEv", NEW_CHECK))
    host = Host(variables=variables(site.folder))
    ((extension,), _) = extensions([site.packages], None, executable=Path(sys.executable), host=host)
    assert {"libc10.so", "libtorch.so", "libtorch_cpu.so"} <= set(extension.missing_libraries)
    assert extension.missing_symbols == ()


def test_half_a_torch(site):
    site.module("_C.so", calling("_ZN2at4_ops11never_there4callEv", NEW_CHECK))
    half = site.folder / "half" / "torch"
    (half / "lib").mkdir(parents=True)
    shutil.copy(site.torch / "lib" / "libc10.so", half / "lib")
    (half / "lib" / "libtorch_cpu.so").write_bytes((site.torch / "lib" / "libtorch_cpu.so").open("rb").read(5000))
    host = Host(variables=variables(site.folder))
    ((extension,), _) = extensions([site.packages], half, executable=Path(sys.executable), host=host)
    assert "libtorch_cpu.so" in extension.missing_libraries
    assert extension.missing_symbols == ()


def test_an_editable_install_and_a_folder_without_metadata(site):
    source = site.folder / "checkout"
    module = compiled(source / "src" / "mine" / "_C.so", calling(NEW_CHECK), *site.linked)
    for other in ("build/lib/mine", ".tox/py/lib", "environment/lib"):  # what Python does not import from there
        (source / other).mkdir(parents=True)
        shutil.copy(module, source / other)
    (source / "environment" / "pyvenv.cfg").touch()
    information = site.packages / "mine-0.1.dist-info"
    information.mkdir()
    (information / "RECORD").write_text("__editable__.mine-0.1.pth,,\n")
    (information / "direct_url.json").write_text(json.dumps({"url": source.as_uri(), "dir_info": {"editable": True}}))
    site.module("loose/deep/_C.so", calling(NEW_CHECK))
    site.module("older-1.0-py3.11.egg/older/_C.so", calling(NEW_CHECK))
    assert {file: extension.package for file, extension in site.judged().items()} == {
        str(source / "src" / "mine" / "_C.so"): "mine",
        "loose/deep/_C.so": None,
        "older-1.0-py3.11.egg/older/_C.so": "older",
    }


def test_damaged_modules_are_notes(site):
    path = site.module("bad/cut.so", calling(NEW_CHECK))
    path.write_bytes(path.read_bytes()[:3000])
    (site.packages / "bad" / "pointer.so").write_text("version https://git-lfs.github.com/spec/v1\n" + "x" * 80)
    (site.packages / "bad" / "empty.so").touch()
    installed(site.packages, "bad")
    host = Host(variables=variables(site.folder))
    found, notes = extensions([site.packages], site.torch, executable=Path(sys.executable), host=host)
    assert found == ()
    assert sorted(note.partition(" ")[0] for note in notes) == ["bad/cut.so", "bad/empty.so", "bad/pointer.so"]


def test_a_second_look_sees_what_changed(site):
    path = site.module("_C.so", calling("_ZN2at4_ops11never_there4callEv"))
    first = site.one()
    assert site.one() == first
    kept = list((site.folder / "cache" / "trueup").rglob("*.msgpack"))
    assert len(kept) == 1
    kept[0].write_bytes(b"\x93" + os.urandom(200))
    assert site.one() == first
    path.unlink()
    site.module("_C.so", calling(NEW_CHECK))
    assert says_nothing(site.one())


def test_an_unwritable_cache_costs_nothing_but_time(site):
    site.module("_C.so", calling(NEW_CHECK))
    (site.folder / "cache").write_text("a file where the folder would be")
    assert says_nothing(site.one())


LOADER = """
import ctypes, json, os, sys
for library in sys.argv[1].split(":"):
    ctypes.CDLL(library)
results = {}
for path in sys.argv[2:]:
    try:
        ctypes.CDLL(path, os.RTLD_NOW)
        results[path] = ""
    except OSError as error:
        results[path] = str(error)
print(json.dumps(results))
"""


def test_the_loader_of_this_machine_agrees(site, tmp_path):
    """Every module is really loaded into a process that holds torch's libraries."""
    absent = compiled(tmp_path / "elsewhere" / "libother.so.2", "void other(void) {}", "-Wl,-soname,libother.so.2")
    sources = {
        "fits": (calling(NEW_CHECK, "PyList_New", "cos"), "-lm"),
        "weak": (calling(NEW_CHECK, weak=("_ZN2at4_ops8optional4callEv",)),),
        "old_strings": (calling(OLD_CHECK),),
        "never_there": (calling("_ZN2at4_ops11never_there4callEv"),),
        "gone": (calling("_ZN5torch8autograd10deleteNodeEPNS0_4NodeE"),),
        "cuda": (calling("_ZN3c104cuda9SetDeviceEab"),),
        "other_python": (calling("_PyUnicode_Ready", "PyThis_Never_Was"),),
        "no_library": (calling("other"), str(absent)),
        "stable": (calling("aoti_torch_get_dim"),),
    }
    paths = {name: site.module(f"{name}.so", source, *options) for name, (source, *options) in sources.items()}
    libraries = ":".join(str(site.torch / "lib" / name) for name in ("libc10.so", "libtorch_cpu.so", "libtorch.so"))
    done = subprocess.run(
        [sys.executable, "-c", LOADER, libraries, *map(str, paths.values())], capture_output=True, text=True, check=True
    )
    errors = json.loads(done.stdout)
    judged = site.judged()
    verdicts = {name: says_nothing(judged[f"{name}.so"]) for name in paths}
    assert verdicts == {name: not errors[str(path)] for name, path in paths.items()}, errors
    assert {name for name, fits in verdicts.items() if fits} >= {"fits", "weak", "stable"}
    assert not any(verdicts[name] for name in ("old_strings", "never_there", "no_library"))
