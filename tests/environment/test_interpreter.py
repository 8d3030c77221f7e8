"""Version, ABI and search path, told from files, are what the interpreter says of itself."""

import json
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from hand_made import SITE, environment, machine, program, write

from trueup.environment.host import Host
from trueup.environment.interpreter import interpreter_of, package_folders
from trueup.environment.target import TargetError, of_folder, of_python, target_of


def said_by(python: Path) -> dict:
    code = "import json, sys, platform; print(json.dumps([platform.python_version(), sys.path, sys.prefix]))"
    variables = {"PATH": "/usr/bin:/bin", "HOME": "/"}
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, env=variables, timeout=60)
    return dict(zip(("version", "path", "prefix"), json.loads(done.stdout), strict=True))


def folders_of(python: Path) -> list[Path]:
    host = Host(variables={"HOME": "/"})
    target = of_python(host, str(python), "--python")
    return [folder.resolve() for folder in package_folders(target, interpreter_of(target), host)]


def test_of_the_python_that_runs():
    found = interpreter_of(of_python(Host(), sys.executable, "--python"))
    assert found.version == platform.python_version()
    assert found.tag == f"cp{sysconfig.get_config_var('py_version_nodot')}"
    assert found.soabi == sysconfig.get_config_var("SOABI")
    assert found.base is not None
    assert found.base.resolve() == Path(sys.base_prefix).resolve()


def test_a_fresh_environment_searches_its_own_packages_only(fresh_environment):
    assert folders_of(fresh_environment / "bin" / "python") == [
        Path(entry).resolve()
        for entry in said_by(fresh_environment / "bin" / "python")["path"]
        if "site-packages" in entry
    ]


def test_shared_and_editable_packages_are_searched_in_the_order_of_python(sharing_environment):
    python = sharing_environment / "bin" / "python"
    library = Path(sysconfig.get_path("stdlib")).resolve()
    by_python = [Path(entry).resolve() for entry in said_by(python)["path"] if entry and Path(entry).is_dir()]
    by_python = [entry for entry in by_python if entry not in (library, library / "lib-dynload")]
    found = folders_of(python)
    assert sorted(found) == sorted(by_python)
    assert found[0] == by_python[0] == (sharing_environment / "lib" / library.name / "site-packages").resolve()
    assert any(folder.name == "src" for folder in found), "the editable project is on the path"


@pytest.mark.parametrize("name", ["/usr/bin/python3", str(Path(sys.base_prefix) / "bin" / "python3")])
def test_installations_without_an_environment(name):
    if not Path(name).exists():
        pytest.skip(f"no {name} here")
    target = of_python(Host(), name, "--python")
    assert interpreter_of(target).version == said_by(Path(name))["version"]
    assert not target.is_virtual


def test_the_user_and_pythonpath_come_first(tmp_path):
    environment(tmp_path / "env", **{"include-system-site-packages": "true"})
    write(tmp_path, {"home/.local/lib/python3.11/site-packages/x.py": "", "extra/y.py": ""})
    host = machine(tmp_path, PYTHONPATH=f"{tmp_path}/extra:{tmp_path}/gone")
    target = of_folder(tmp_path / "env", "--env")
    found = package_folders(target, interpreter_of(target), host)
    assert found[:3] == (tmp_path / "extra", tmp_path / "home/.local" / SITE, tmp_path / "env" / SITE)


def test_a_free_threaded_python(tmp_path):
    write(tmp_path, {"lib/python3.13t/_sysconfigdata_t_linux.py": "{'SOABI': 'cpython-313t-x86_64-linux-gnu'}"})
    program(tmp_path / "bin" / "python3.13t", "exit 1")
    found = interpreter_of(of_folder(tmp_path, "--env"))
    assert (found.tag, found.version, found.soabi) == ("cp313t", "3.13", "cpython-313t-x86_64-linux-gnu")


def test_conda_says_the_patch_number(tmp_path):
    write(tmp_path, {"conda-meta/python-3.12.8-h9e4cc4f_1_cpython.json": "{}", "lib/python3.12/os.py": ""})
    found = interpreter_of(of_folder(tmp_path, "--env"))
    assert (found.version, found.tag) == ("3.12.8", "cp312")


def test_of_several_installed_pythons_the_one_that_was_named(tmp_path):
    for version in ("3.9", "3.11", "3.12"):
        write(
            tmp_path, {f"lib/python{version}/os.py": "", f"bin/python{version}": "", f"include/python{version}/x.h": ""}
        )
    (tmp_path / "bin" / "python3").symlink_to("python3.11")
    assert interpreter_of(of_python(Host(), str(tmp_path / "bin" / "python3"), "--python")).version == "3.11"
    assert interpreter_of(of_python(Host(), str(tmp_path / "bin" / "python3.9"), "--python")).version == "3.9"


def test_a_pyenv_shim_is_followed_without_being_run(tmp_path):
    write(
        tmp_path,
        {
            "pyenv/version": "3.10.1\n",
            "pyenv/versions/3.10.1/lib/python3.10/os.py": "",
            "job/.python-version": "3.12.1\n",
        },
    )
    write(tmp_path, {"pyenv/versions/3.12.1/lib/python3.12/os.py": ""})
    for version in ("3.10.1", "3.12.1"):
        program(tmp_path / "pyenv/versions" / version / "bin/python", "exit 1")
    shim = program(tmp_path / "pyenv/shims/python", f"touch {tmp_path}/started")
    assert of_python(machine(tmp_path), str(shim), "").prefix.name == "3.12.1"
    assert of_python(machine(tmp_path, PYENV_VERSION="3.10.1"), str(shim), "").prefix.name == "3.10.1"
    assert not (tmp_path / "started").exists()


def test_the_active_environment_is_the_one_looked_at(tmp_path):
    environment(tmp_path / "active")
    target = target_of(machine(tmp_path, VIRTUAL_ENV=str(tmp_path / "active")))
    assert (target.prefix, target.chosen_by) == (tmp_path / "active", "VIRTUAL_ENV")


def test_an_environment_of_one_tool_is_not_the_users(tmp_path, monkeypatch):
    environment(tmp_path / "tool")
    environment(tmp_path / "job" / ".venv")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "tool"))
    assert target_of(machine(tmp_path)).prefix == tmp_path / "tool"
    write(tmp_path / "tool", {"uv-receipt.toml": ""})
    assert target_of(machine(tmp_path)).prefix == tmp_path / "job" / ".venv"


@pytest.mark.parametrize("name", ["gone", "bin/cat"])
def test_what_is_no_python_is_told(tmp_path, name):
    program(tmp_path / "bin" / "cat", "exit 1")
    with pytest.raises(TargetError, match=str(tmp_path / name)):
        of_python(Host(), str(tmp_path / name), "--python")


def test_a_folder_without_python_is_told(tmp_path):
    with pytest.raises(TargetError, match=r"neither pyvenv\.cfg nor conda-meta"):
        of_folder(tmp_path, "--env")


def test_links_in_a_circle_end(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(TargetError):
        of_python(Host(), str(tmp_path / "a"), "--python")
