"""A launcher's configuration file as options of its command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

SHELLS = ("sh", "bash", "zsh")
SYNTAX = frozenset(";&|<>$`(){}*?\n")
"""Signs by which a shell does more than start one command."""
OPTION = "--config_file"
NAMES = {"use_cpu": "cpu"}
"""Key of accelerate's file → its option, where that has another name."""
SINGLE = (
    "num_processes",
    "num_machines",
    "machine_rank",
    "mixed_precision",
    "dynamo_backend",
    "gradient_accumulation_steps",
)
GROUPS = ("fsdp_config", "dynamo_config")
FLAGS = {"FSDP": "--use_fsdp", "MULTI_GPU": "--multi_gpu"}
"""`distributed_type` → the option that asks for it."""


def standalone(words: Sequence[str], files: Mapping[str, str]) -> tuple[str, ...]:
    """`accelerate launch --config_file a.yaml` without the file; any other command as it is."""
    place = next((i for i, word in enumerate(words) if word.partition("=")[0] == OPTION), None)
    if place is None:
        return tuple(words)
    _, sign, path = words[place].partition("=")
    path = path if sign else next(iter(words[place + 1 : place + 2]), "")
    settings = _settings(files.get(path.removeprefix("./"), ""))
    if settings is None:
        return tuple(words)
    return (*words[:place], *_options(settings), *words[place + (1 if sign else 2) :])


def without_shell(words: Sequence[str]) -> tuple[str, ...]:
    """`sh -c "python train.py"` as `python train.py`; what needs a shell stays as it is."""
    if len(words) == 3 and words[0].rpartition("/")[2] in SHELLS and words[1] == "-c" and not SYNTAX & set(words[2]):
        return tuple(shlex.split(words[2]))
    return tuple(words)


def _settings(text: str) -> dict[str, Any] | None:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    return found if isinstance(found, dict) else None


def _options(settings: Mapping[str, Any]) -> Iterator[str]:
    if settings.get("distributed_type") in FLAGS:
        yield FLAGS[settings["distributed_type"]]
    if settings.get("use_cpu"):
        yield f"--{NAMES['use_cpu']}"
    every = {name: settings[name] for name in SINGLE if name in settings}
    for group in GROUPS:
        every |= settings.get(group) or {}
    for name, value in every.items():
        if value is not None:
            yield f"--{name}"
            yield str(value).lower() if isinstance(value, bool) else str(value)
