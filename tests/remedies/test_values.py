"""Values of variables that are found on the machine when a run starts, and that hold within it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from trueup.environment.host import Host
from trueup.remedies.values import cxx_compiler, network_interface, value
from trueup.runs.injection import HELD, inject
from trueup.schema.variant import Variant

GATEWAY = "Iface\tDestination\tGateway\nbr0\t0011AC0A\t00000000\nens5\t00000000\t0100000A\n"


def compiler(folder: Path, name: str, version: str) -> Path:
    """A g++ of this version, as distributions lay it out."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib" / "gcc" / "x86_64-linux-gnu" / version).mkdir(parents=True)
    path = folder / "bin" / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_free_port_can_be_listened_on() -> None:
    port = value("free-port", {})
    with socket.socket() as bound:
        bound.bind(("", int(port or 0)))


def test_an_old_compiler_is_passed_over(tmp_path: Path) -> None:
    compiler(tmp_path / "old", "g++", "8.5.0")
    new = compiler(tmp_path / "new", "g++-12", "12")
    path = f"{tmp_path / 'old' / 'bin'}{os.pathsep}{new.parent}"
    assert cxx_compiler(Host(variables={"PATH": path})) in (str(new), "/usr/bin/g++", "/usr/local/bin/g++")


def test_a_cache_folder_is_one_that_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = value("inductor-cache", {"XDG_CACHE_HOME": str(tmp_path / "file"), "HOME": str(tmp_path / "home")})
    assert found is not None
    assert found.startswith(str(tmp_path / "home"))
    assert os.access(found, os.W_OK)


def test_the_interface_is_that_of_the_default_route_else_one_that_is_up(tmp_path: Path) -> None:
    for name, state in (("ens5", "up"), ("br0", "down"), ("lo", "unknown")):
        (tmp_path / "sys/class/net" / name).mkdir(parents=True)
        (tmp_path / "sys/class/net" / name / "operstate").write_text(f"{state}\n")
    assert network_interface(Host(root=tmp_path)) == "ens5"
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/route").write_text(GATEWAY.replace("ens5", "eth1"))
    assert network_interface(Host(root=tmp_path)) == "eth1"


@pytest.mark.parametrize("assigned", ["before", "by the program"])
def test_the_variables_of_a_remedy_hold_against_the_script(tmp_path: Path, assigned: str) -> None:
    program = "import os, torch.distributed as dist; print(os.environ['TORCH_DISTRIBUTED_DEBUG'], dist.is_available())"
    if assigned == "by the program":
        program = f"import os; os.environ['TORCH_DISTRIBUTED_DEBUG'] = 'DETAIL'; {program}"
    shell = ["sh", "-c", 'TORCH_DISTRIBUTED_DEBUG=DETAIL exec "$@"', "sh", sys.executable, "-c", program]
    with inject(os.environ, events=tmp_path, variant=Variant(remedies=("debug-level-info",))) as injection:
        held = json.loads(injection.environment[HELD])
        done = subprocess.run(shell, env=injection.environment, capture_output=True, text=True, timeout=120, check=True)
    assert held == {"debug-level-info": {"TORCH_DISTRIBUTED_DEBUG": "INFO"}}
    assert done.stdout.split() == ["INFO", "True"]
