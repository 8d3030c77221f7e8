"""All facts of one environment on one machine, collected from files. Nothing is judged here and no Python is run."""

from __future__ import annotations

import os
from collections.abc import Iterable

from trueup.environment.builds import torch_headers
from trueup.environment.extensions import extensions
from trueup.environment.folders import folders
from trueup.environment.gpus import newest_cuda, search
from trueup.environment.host import Host
from trueup.environment.interpreter import Interpreter, interpreter_of, package_folders
from trueup.environment.layer_classes import layer_classes
from trueup.environment.limits import limits
from trueup.environment.network import interfaces, ports
from trueup.environment.packages import installed
from trueup.environment.settings import settings
from trueup.environment.target import Target
from trueup.environment.toolchain import tools
from trueup.environment.torch_build import torch_facts, torch_folder
from trueup.environment.weights import weights
from trueup.schema.environment import Environment, Setting


def collect(target: Target, host: Host | None = None) -> Environment:
    """The facts of `target`; what could not be read is None or absent, and said in `notes`."""
    host = host or Host()
    gpu_search = search(host, target.prefix)  # the driver's tool answers while the files are read
    interpreter = interpreter_of(target)
    machine = _machine(interpreter)
    search_path = package_folders(target, interpreter, host)
    packages, package_notes = installed(search_path)
    torch = torch_folder(search_path)
    modules, module_notes = extensions(search_path, torch, executable=target.executable, host=host)
    asked, setting_notes = settings(host)
    places, folder_notes = folders(host)
    driver, gpus = gpu_search.found()
    notes = [
        *_interpreter_notes(target, interpreter),
        *(*package_notes, *module_notes, *setting_notes, *folder_notes),
        *gpu_search.notes,
    ]
    return Environment(
        python=interpreter.version,
        python_tag=interpreter.tag,
        executable=None if target.executable is None else str(target.executable),
        prefix=str(target.prefix),
        chosen_by=target.chosen_by,
        base_prefix=None if interpreter.base is None else str(interpreter.base),
        search_path=tuple(map(str, search_path)),
        platform=_platform(host),
        machine=machine,
        torch=None if torch is None else torch_facts(torch),
        packages=packages,
        extensions=modules,
        torch_headers=torch_headers(modules, search_path),
        gpus=gpus,
        driver=driver,
        driver_cuda=newest_cuda(driver),
        tools=tools(host, target.prefix, machine, search_path),
        settings=asked,
        folders=places,
        layer_classes=layer_classes(asked, search_path, packages, host),
        weights=weights(host),
        limits=limits(host),
        interfaces=interfaces(host),
        ports=ports(host, *_configured_ports(asked)),
        notes=tuple(notes),
    )


def _machine(interpreter: Interpreter) -> str | None:
    """Of the Python, which need not be that of the kernel: `cpython-311-x86_64-linux-gnu`."""
    parts = (interpreter.soabi or "").split("-")
    return parts[2] if len(parts) > 3 else os.uname().machine or None


def _platform(host: Host) -> str:
    """Kernel and distribution in words."""
    said = {key: value.strip('"') for key, _, value in (line.partition("=") for line in _release(host))}
    kernel = os.uname()
    return ", ".join(part for part in (f"{kernel.sysname} {kernel.release}", said.get("PRETTY_NAME")) if part)


def _release(host: Host) -> list[str]:
    return (host.text("/etc/os-release") or "").splitlines()


def _interpreter_notes(target: Target, interpreter: Interpreter) -> list[str]:
    notes = []
    if interpreter.library is None:
        notes.append(f"no standard library of a Python was found for {target.prefix}")
    if target.executable is None:
        notes.append(f"{target.prefix}/bin holds no python")
    elif not target.executable.exists():
        notes.append(f"{target.executable} is a link to an interpreter that is gone")
    return notes


def _configured_ports(asked: Iterable[Setting]) -> list[str]:
    return [each.value for each in asked if each.name == "main_process_port" and each.source != "environment"]
