"""Which torch a module was compiled with: real wheels, and a module compiled here as in an isolated build of pip."""

import subprocess

import pytest
from compiled import installed_torch
from registry_wheels import unpacked

from trueup.environment.builds import torch_headers
from trueup.schema.environment import Extension

CODE = """
#include <torch/headeronly/util/Exception.h>
#include <c10/util/Exception.h>
extern "C" void entry(int number) { TORCH_INTERNAL_ASSERT(number); c10::Error gone({__func__, __FILE__, 1}, "x"); }
#include <c10/util/intrusive_ptr.h>
struct Counted : c10::intrusive_ptr_target {};
extern "C" void* counted() { return c10::make_intrusive<Counted>().release(); }
"""


def lacking(file: str) -> Extension:
    return Extension(file=file, missing_symbols=("x",))


@pytest.fixture(scope="module")
def isolated(tmp_path_factory):
    """A module compiled with the headers of torch where an isolated build of pip has them."""
    folder = tmp_path_factory.mktemp("isolated")
    packages = folder / "pip-build-env-x1_y" / "overlay" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "torch").symlink_to(installed_torch())
    (folder / "module.cpp").write_text(CODE)
    command = ["g++", "-shared", "-fPIC", "-std=c++20", "-O0", f"-I{packages}/torch/include", "-o", "module.so"]
    done = subprocess.run(
        [*command, "module.cpp"], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    if "No such file" in done.stderr and "g++" in done.stderr:
        pytest.skip("no C++ compiler here")
    assert done.returncode == 0, done.stderr
    return folder, packages


def test_the_folder_of_an_isolated_build(isolated):
    folder, packages = isolated
    assert torch_headers([lacking("module.so")], [folder]) == {"module.so": str(packages)}


def test_modules_that_lack_nothing_are_not_searched(isolated):
    assert torch_headers([Extension(file="module.so")], [isolated[0]]) == {}


@pytest.mark.network
@pytest.mark.timeout(600)
@pytest.mark.parametrize("requirement", ["torchvision==0.19.1", "torchvision==0.24.1"])
def test_wheels_of_a_publisher_name_another_folder(store, requirement):
    said = torch_headers([lacking("torchvision/_C.so")], [unpacked(store, requirement)])
    assert said["torchvision/_C.so"].startswith("/__w/_temp/conda_environment_")


@pytest.mark.parametrize("content", [b"", b"no header", b"/torch/include/", b"\xff\0/torch/include/x" + b"\0" * 99])
def test_files_that_do_not_tell(tmp_path, content):
    (tmp_path / "module.so").write_bytes(content)
    assert torch_headers([lacking("module.so"), lacking("gone.so")], [tmp_path]) == {}
