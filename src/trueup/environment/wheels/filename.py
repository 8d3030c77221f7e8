"""The file name of a wheel, as a value: `flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl`.

The local version is the label with which these projects say what a wheel was built for; their `setup.py` builds the
same name to guess the address of the wheel."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

LABEL = re.compile(r"cu(?P<cuda>\d+)torch(?P<torch>\d+\.\d+)cxx11abi(?P<abi>true|false)", re.IGNORECASE)


class NotAWheelName(ValueError):
    """The text is no wheel's file name of this kind."""


@dataclass(frozen=True)
class Label:
    """What a wheel says it was built for."""

    cuda: str
    """`12`, or with its minor version `118`."""
    torch: str
    """`2.8`"""
    cxx11_abi: bool

    @classmethod
    def parse(cls, text: str) -> Label:
        """From `cu12torch2.8cxx11abiTRUE`, in either case: packaging gives local versions in lower case."""
        found = LABEL.fullmatch(text)
        if found is None:
            raise NotAWheelName(f"{text} is not a label such as cu12torch2.8cxx11abiTRUE")
        return cls(found["cuda"], found["torch"], found["abi"].lower() == "true")

    @property
    def cuda_major(self) -> int:
        """11 for `118`, 12 for `12`: no CUDA that these projects built for has one digit."""
        return int(self.cuda[:2])

    def __str__(self) -> str:
        return f"cu{self.cuda}torch{self.torch}cxx11abi{str(self.cxx11_abi).upper()}"


@dataclass(frozen=True)
class WheelName:
    """The parts of a file name; `str` joins them again."""

    distribution: str
    """As it stands in the name: `flash_attn`."""
    version: str
    """Without the label."""
    label: Label | None
    """None for a wheel that holds no compiled code."""
    tag: Tag

    @classmethod
    def parse(cls, text: str) -> WheelName:
        """From a file name."""
        try:
            name, version, _, tags = parse_wheel_filename(text)
        except InvalidWheelFilename as error:
            raise NotAWheelName(str(error)) from error
        if len(tags) != 1:
            raise NotAWheelName(f"{text} is for several platforms at once")
        label = None if version.local is None else Label.parse(version.local)
        return cls(name.replace("-", "_"), str(Version(version.public)), label, next(iter(tags)))

    def __str__(self) -> str:
        label = "" if self.label is None else f"+{self.label}"
        return f"{self.distribution}-{self.version}{label}-{self.tag}.whl"
