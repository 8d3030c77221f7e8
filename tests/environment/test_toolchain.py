"""Compilers, toolkits and libraries: what files say is what the programs say of themselves."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hand_made import SITE, machine, program, write

from trueup.environment.host import Host
from trueup.environment.toolchain import tools

HERE = Path("/nonexistent")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def test_the_c_library_of_this_machine():
    name, _, version = os.confstr("CS_GNU_LIBC_VERSION").partition(" ")
    assert name == "glibc"
    assert tools(Host(), HERE, os.uname().machine, [])["glibc"].version == version


@pytest.mark.parametrize("name", ["g++", "gcc"])
def test_the_compiler_of_this_machine(name):
    if shutil.which(name) is None:
        pytest.skip(f"no {name} here")
    found = tools(Host(), HERE, os.uname().machine, [])[name]
    assert found.path == shutil.which(name)
    assert found.version is not None
    assert output_of(name, "-dumpfullversion").startswith(found.version)


def cuda(tmp_path, version="12.8", name="cuda-12.8"):
    said = f'{{"cuda": {{"name": "CUDA SDK", "version": "{version}.0"}}}}'
    write(tmp_path, {f"usr/local/{name}/version.json": said})
    program(tmp_path / f"usr/local/{name}/bin/nvcc", "exit 1")


def found(tmp_path, prefix=HERE, packages=(), **variables):
    variables.setdefault("PATH", str(tmp_path / "usr/bin"))
    return tools(machine(tmp_path, **variables), prefix, "x86_64", packages)


def test_the_toolkit_on_path(tmp_path):
    cuda(tmp_path)
    cuda(tmp_path, "13.0", "cuda-13.0")
    (tmp_path / "usr/local/cuda").symlink_to("cuda-13.0")
    chosen = found(tmp_path, PATH=str(tmp_path / "usr/local/cuda-12.8/bin"))
    assert chosen["nvcc"].version == chosen["cuda toolkit"].version == "12.8"
    assert chosen["cuda toolkit 13.0"].path == str(tmp_path / "usr/local/cuda")


def test_cuda_home_goes_before_path(tmp_path):
    cuda(tmp_path)
    cuda(tmp_path, "11.8", "cuda-11.8")
    home = str(tmp_path / "usr/local/cuda-11.8")
    assert (
        found(tmp_path, PATH=str(tmp_path / "usr/local/cuda-12.8/bin"), CUDA_HOME=home)["cuda toolkit"].version
        == "11.8"
    )


def test_the_usual_place_when_nothing_else_is_said(tmp_path):
    cuda(tmp_path, name="cuda")
    assert found(tmp_path)["cuda toolkit"].version == "12.8"


def test_a_toolkit_without_its_compiler_is_none(tmp_path):
    write(tmp_path, {"usr/local/cuda/version.txt": "CUDA Version 11.0.3\n"})
    chosen = found(tmp_path)["cuda toolkit"]
    assert (chosen.name, chosen.version) == ("cuda toolkit without nvcc", "11.0")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("version.txt", "CUDA Version 12.4.1"),
        ("include/cuda.h", "/* */\n#define CUDA_VERSION 12040\n"),
        ("version.json", '{"cuda": {"version": "12.4.1"}}'),
        ("version.json", '{"cuda": broken'),
    ],
)
def test_where_a_toolkit_keeps_its_version(tmp_path, file, text):
    write(tmp_path, {f"usr/local/cuda-12.4/{file}": text})
    program(tmp_path / "usr/local/cuda-12.4/bin/nvcc", "exit 1")
    assert found(tmp_path, CUDA_HOME=str(tmp_path / "usr/local/cuda-12.4"))["cuda toolkit"].version == "12.4"


def test_a_script_that_hands_over_to_the_compiler(tmp_path):
    cuda(tmp_path)
    program(tmp_path / "usr/bin/nvcc", f'exec {tmp_path}/usr/local/cuda-12.8/bin/nvcc "$@"')
    chosen = found(tmp_path)
    assert chosen["nvcc"].path == str(tmp_path / "usr/local/cuda-12.8/bin/nvcc")
    assert chosen["cuda toolkit"].path == str(tmp_path / "usr/local/cuda-12.8")


def test_compilers_by_the_folder_of_their_parts(tmp_path):
    program(tmp_path / "usr/bin/g++", "exit 1")
    write(tmp_path, {"usr/lib/gcc/x86_64-redhat-linux/8/x": "", "usr/lib/gcc/x86_64-redhat-linux/11/x": ""})
    assert found(tmp_path)["g++"].version == "11"


def test_the_compiler_that_a_variable_names(tmp_path):
    program(tmp_path / "opt/bin/g++-13", "exit 1")
    program(tmp_path / "usr/bin/clang++-18", "exit 1")
    chosen = found(tmp_path, CXX=f"{tmp_path}/opt/bin/g++-13 -O2", CC="clang++-18")
    assert (chosen["CXX"].version, chosen["CC"].version) == ("13", "18")
    assert "CXX" not in found(tmp_path, CXX="g++-99")


def test_tools_of_an_environment_that_is_not_active(tmp_path):
    program(tmp_path / "env/bin/ninja", "exit 1")
    assert found(tmp_path, prefix=tmp_path / "env")["ninja"].path == str(tmp_path / "env/bin/ninja")


def test_the_standard_library_of_cxx(tmp_path):
    write(tmp_path, {"usr/lib64/libstdc++.so.6.0.28": b"\x7fELF"})
    (tmp_path / "usr/lib64/libstdc++.so.6").symlink_to("libstdc++.so.6.0.28")
    assert found(tmp_path)["libstdc++"].version == "3.4.28"


def cached(tmp_path, *paths):
    """A loader cache holds its paths as texts that end with a zero byte."""
    write(
        tmp_path, {"etc/ld.so.cache": b"glibc-ld.so.cache1.1\0" + b"\0".join(path.encode() for path in paths) + b"\0"}
    )


def test_the_drivers_library_in_the_loaders_cache(tmp_path):
    cached(tmp_path, "libcuda.so.1", "/lib/x86_64-linux-gnu/libcuda.so.1", "/gone/libcuda.so", "/lib/libcudart.so.12")
    write(tmp_path, {"lib/x86_64-linux-gnu/libcuda.so.1": b""})
    chosen = found(tmp_path)
    assert chosen["libcuda.so.1"].path == "/lib/x86_64-linux-gnu/libcuda.so.1"
    assert "libcuda.so" not in chosen


def test_the_drivers_library_outside_of_the_cache(tmp_path):
    cached(tmp_path, "/lib/libc.so.6")
    write(tmp_path, {"usr/local/nvidia/lib64/libcuda.so.1": b""})
    chosen = found(tmp_path)["libcuda.so.1 outside of the loader's cache"]
    assert chosen.path == "/usr/local/nvidia/lib64/libcuda.so.1"


def test_what_triton_brings_and_links(tmp_path):
    site = write(
        tmp_path / "env" / SITE,
        {
            "triton/backends/nvidia/bin/ptxas": b"\x7fELF\0..Cuda compilation tools, release 12.8, V12.8.93\0..",
            "triton/backends/nvidia/bin/ptxas-blackwell": b"\x7fELF\0..release 12.9, V12.9.86\0..",
            "triton/backends/nvidia/driver.py": "libraries = ['libcuda.so.1']\n",
        },
    )
    chosen = found(tmp_path, packages=[site])
    assert chosen["triton ptxas"].version == "12.8"
    assert chosen["triton ptxas-blackwell"].version == "12.9"
    assert chosen["library that triton links"].name == "libcuda.so.1"


def test_an_older_triton_links_the_name_for_developers(tmp_path):
    site = write(tmp_path / "env" / SITE, {"triton/common/build.py": 'cc_cmd = [cc, src, "-O3", "-lcuda", "-o", so]\n'})
    assert found(tmp_path, packages=[site])["library that triton links"].name == "libcuda.so"


def test_binaries_that_are_empty_or_without_a_version(tmp_path):
    site = write(tmp_path / "env" / SITE, {"triton/backends/nvidia/bin/ptxas": b""})
    write(tmp_path, {"lib64/libc.so.6": b"\x7fELF nothing"})
    chosen = found(tmp_path, packages=[site])
    assert chosen["triton ptxas"].version is None
    assert chosen["glibc"].version is None
