"""The search of the dynamic loader, against what its own tools say on this machine."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from compiled import calling, compiled

from trueup.environment import elf
from trueup.environment.host import Host
from trueup.environment.libraries import Asker, Libraries, expanded, loader_cache

MACHINE = os.uname().machine


def libraries(host: Host | None = None, **others) -> Libraries:
    return Libraries(host or Host(variables={}), MACHINE, **{"loaded": {}, "preferred": {}, "others": {}, **others})


@pytest.mark.skipif(shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin") is None, reason="no ldconfig")
def test_the_cache_of_the_loader_as_ldconfig_prints_it():
    printed = subprocess.run(
        [shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin") or "", "-p"], capture_output=True, text=True, check=True
    ).stdout
    flags = {"x86_64": "x86-64", "aarch64": "AArch64"}[MACHINE]
    theirs: dict[str, str] = {}
    for name, path in re.findall(rf"^\s+(\S+) \(libc6,{flags}\) => (\S+)$", printed, re.MULTILINE):
        theirs.setdefault(name, path)
    ours = loader_cache(Path("/etc/ld.so.cache"), MACHINE)
    assert len(theirs) > 5
    assert {name: ours.get(name) for name in theirs} == theirs


def test_what_is_no_cache_is_empty(tmp_path):
    real = Path("/etc/ld.so.cache").read_bytes()
    file = tmp_path / "ld.so.cache"
    assert loader_cache(file, MACHINE) == {}
    for data in (b"", b"glibc-ld.so.cache1.1", b"\xff" * 4000, real[:500], real[:20] + b"\xff" * 400):
        file.write_bytes(data)
        assert isinstance(loader_cache(file, MACHINE), dict)
    file.write_bytes(b"ld.so-1.7.0\0" + bytes(12) + real)  # as written for programs older than glibc 2.2, with both
    assert loader_cache(file, MACHINE) == loader_cache(Path("/etc/ld.so.cache"), MACHINE)


def test_the_closure_is_what_ldd_lists(tmp_path):
    subject = compiled(tmp_path / "subject.so", calling("cos", "dlopen"), "-lm", "-lstdc++", "-Wl,--no-as-needed")
    closure, missing = libraries().closure(Asker.of(elf.read(subject)))
    printed = subprocess.run(["ldd", str(subject)], capture_output=True, text=True, check=True).stdout
    theirs = {name: Path(path).resolve() for name, path in re.findall(r"(\S+) => (/\S+)", printed)}
    assert missing == ()
    assert {name: closure[name].path.resolve() for name in theirs} == theirs


def test_the_order_of_the_search(tmp_path):
    """RPATH before LD_LIBRARY_PATH before RUNPATH; RPATH is passed over where there is a RUNPATH."""
    for folder in ("rpath", "variable", "runpath"):
        compiled(tmp_path / folder / "libwhich.so", "void which(void) {}")
    compiled(tmp_path / "bare" / "libwhich.so", "void which(void) {}")

    def found(*, variable: bool = True, **paths: str) -> str | None:
        searched = {name: (f"$ORIGIN/{value}",) for name, value in paths.items()}
        asker = Asker(path=tmp_path / "asker.so", needed=("libwhich.so",), **searched)
        host = Host(variables={"LD_LIBRARY_PATH": str(tmp_path / "variable")} if variable else {})
        path = libraries(host).find("libwhich.so", asker)
        return path.parent.name if path else None

    assert found(rpath="rpath") == "rpath"
    assert found(rpath="rpath", runpath="runpath") == "variable"
    assert found(runpath="runpath") == "variable"
    assert found(runpath="runpath", variable=False) == "runpath"
    assert found(variable=False) is None


def test_a_library_of_another_machine_is_passed_over(tmp_path):
    wrong = compiled(tmp_path / "wrong" / "libwhich.so", "void which(void) {}")
    right = compiled(tmp_path / "right" / "libwhich.so", "void which(void) {}")
    data = bytearray(wrong.read_bytes())
    data[18:20] = (183 if MACHINE == "x86_64" else 62).to_bytes(2, "little")
    wrong.write_bytes(data)
    asker = Asker(path=tmp_path / "asker.so", needed=("libwhich.so",), runpath=("$ORIGIN/wrong", "$ORIGIN/right"))
    assert libraries().find("libwhich.so", asker) == right


def test_what_torch_has_loaded_comes_first(tmp_path):
    loaded = compiled(tmp_path / "torch" / "libgomp.so.1", "void omp(void) {}")
    asker = Asker(path=tmp_path / "asker.so", needed=("libgomp.so.1",))
    assert libraries(loaded={"libgomp.so.1": loaded}).find("libgomp.so.1", asker) == loaded


def test_libraries_that_need_each_other(tmp_path):
    first = compiled(tmp_path / "libfirst.so", "void first(void) {}", "-Wl,-soname,libfirst.so")
    second = compiled(tmp_path / "libsecond.so", calling("first"), str(first), "-Wl,-soname,libsecond.so")
    compiled(tmp_path / "libfirst.so", "void first(void) {}", "-Wl,--no-as-needed", str(second))
    asker = Asker(path=tmp_path / "asker.so", needed=("libfirst.so",))
    closure, missing = libraries(others={path.name: path for path in (first, second)}).closure(asker)
    assert {"libfirst.so", "libsecond.so"} <= set(closure)
    assert missing == ()


def test_tokens():
    asker = Path("/opt/pack/_C.so")
    assert expanded("$ORIGIN/../lib", asker, "x86_64") == "/opt/pack/../lib"
    assert expanded("${ORIGIN}/x/$PLATFORM/$NOTHING", asker, "x86_64") == "/opt/pack/x/x86_64/$NOTHING"
