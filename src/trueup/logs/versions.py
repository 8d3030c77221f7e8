"""Versions of packages, Python, CUDA and driver, where the text shows them."""

from __future__ import annotations

import re

_VERSION = r"\d+(?:\.\d+)+(?:\.?(?:post|dev|rc|a|b)\d+)*(?:\+[\w.]+)?"
_NAMES = (
    "torch|torchvision|torchaudio|transformers|accelerate|peft|trl|deepspeed|flash[-_]attn|flash[-_]attn[-_]3|xformers|"
    "bitsandbytes|triton|vllm|sglang|verl|lightning|pytorch[-_]lightning|transformer[-_]engine|apex|torchao|numpy|"
    "datasets|unsloth|axolotl|megatron[-_]core|ray|nvidia[-_]nccl[-_]cu1\\d|"
    "nvidia[-_]cudnn[-_]cu1\\d|ninja|setuptools|pip|"
    "sageattention|liger[-_]kernel|torchtitan|cut[-_]cross[-_]entropy|kernels|auto[-_]gptq|autoawq|llamafactory"
)


def _spellings(names: str) -> tuple[str, ...]:
    """Every text that the alternatives of `_NAMES` match."""
    found = [
        name.replace(r"\d", str(digit)) for name in names.split("|") for digit in range(10 if r"\d" in name else 1)
    ]
    return tuple(name.replace("[-_]", sign) for name in found for sign in ("-_" if "[-_]" in name else "-"))


# In the order of trust: what a program says about itself, an installer about what it put there, file names.
_SURE = re.compile(
    rf"(?:^|[\s\-`*])(?P<a>PyTorch|Transformers|Accelerate|PEFT|TRL|Triton|vLLM|DeepSpeed|CUDA|"
    rf"Python|NCCL|cuDNN)`?[ _](?:version)(?: \([^)]*\))?`?\s*(?:is|:|=)?\s*(?P<av>{_VERSION})"
    rf"|(?:^|[\s`])(?P<b>{_NAMES})`? (?:version)`?\s*(?::|=|is)\s*(?P<bv>{_VERSION})"
    rf"|CUDA used to build PyTorch: (?P<cuda>{_VERSION})|\bNCCL version (?P<nccl>{_VERSION})"
    rf"|(?:Nvidia driver version|Driver Version): *(?P<driver>{_VERSION})"
    rf"|release (?P<nvcc>\d+\.\d+), V\d|but you have (?P<c>{_NAMES}) (?P<cv>{_VERSION})"
    rf"|^(?P<d>{_NAMES})(?:==|\s+)(?P<dv>{_VERSION})(?:\s|$)|\[(?:pip3?|"
    rf"conda)\]\s+(?P<e>{_NAMES})(?:==|\s+)(?P<ev>{_VERSION})",
    re.I,
)
_INSTALLED = re.compile(
    rf"Requirement already satisfied: (?P<a>{_NAMES})\b[^()]*\((?P<av>{_VERSION})\)"
    rf"|^\s*\+ (?P<c>{_NAMES})==(?P<cv>{_VERSION})"
    rf"|(?:^|[/\\\s])(?P<b>{_NAMES})-(?P<bv>{_VERSION})(?=\.dist-info|-cp3|-py[23]|\.tar\.gz|-x86|/|\s|$)",
    re.I,
)
_WEAK = re.compile(rf"(?<![\w.])(?P<a>{_NAMES})(?:==|@)(?P<av>{_VERSION})", re.I)
_PYTHON = re.compile(
    r"[/\\]python(?P<a>3\.\d{1,2})[/\\]|cpython-3(?P<b>\d{1,2})[-.]|-cp3(?P<c>\d{1,2})-|"
    r"^Python (?P<d>3\.\d+\.\d+)|Python version: (?P<e>3\.\d+(?:\.\d+)?)"
)
_WORLD = re.compile(r"(?:\bworld[_ ]size\s*[:=]?\s*|\bWORLD_SIZE=|\bnranks\s+|rank \d+ of )(?P<size>\d{1,6})\b", re.I)

_SPELLED = {"pytorch": "torch", "flash_attn": "flash-attn"}
_STARTING = re.compile(rf"(?:{_NAMES})(?:==|\s+){_VERSION}(?:\s|$)", re.I)
_IN_FILE_NAME = re.compile(r"-\d+\.\d")
_SEEN_LIMIT = 10_000
_NUMBER = re.compile(r"\d\.\d")
_WORLD_HINTS = ("world", "nranks", " of ")
_PYTHON_HINTS = ("python", "-cp3")
_PACKAGE_HINTS = (
    "torch", "transform", "accelerate", "cuda", "version", "==", "driver", "release", "flash", "triton", "vllm", "trl",
    "deepspeed", "peft", "xformers", "bitsandbytes", "lightning", "numpy", "sglang", "verl",
)  # fmt: skip
_SURE_HINTS = ("cuda used to build", "but you have", "[pip", "[conda")
_BEFORE_VERSION = ("pytorch", "python", "nccl", "cudnn", "cuda", "driver", *_spellings(_NAMES))
HINTS = (*_PYTHON_HINTS, "world", "nranks", "torch", "version", "==", "driver v", "release ")
"""Lower case; a line of a long log without any of them is not looked at for versions."""


def _may_be_sure(text: str, lowered: str) -> bool:
    """What every match of `_SURE` has, told without trying all names at each character."""
    if any(hint in lowered for hint in _SURE_HINTS) or ("release " in lowered and ", v" in lowered):
        return True
    at = lowered.find("version")
    while at >= 0:
        if lowered[:at].rstrip(" _`").endswith(_BEFORE_VERSION):
            return True
        at = lowered.find("version", at + 1)
    return _STARTING.match(text) is not None


class Versions:
    """Collects versions line by line; the most trustworthy sight wins, and of two equal ones the first."""

    def __init__(self) -> None:
        self.world_size: int | None = None
        self._found: dict[str, tuple[int, str]] = {}
        self._seen: set[str] = set()

    def look(self, text: str) -> None:
        """Takes what the line shows."""
        if text in self._seen:
            return
        if len(self._seen) < _SEEN_LIMIT:
            self._seen.add(text)
        lowered = text.lower()
        if self.world_size is None and any(hint in lowered for hint in _WORLD_HINTS) and (world := _WORLD.search(text)):
            self.world_size = int(world["size"]) or None
        if any(hint in lowered for hint in _PYTHON_HINTS) and (python := _PYTHON.search(text)):
            groups = python.groupdict()
            exact = groups["d"] or groups["e"]
            self._take("python", exact or groups["a"] or f"3.{groups['b'] or groups['c']}", 0 if exact else 1)
        if not _NUMBER.search(text) or not any(hint in lowered for hint in _PACKAGE_HINTS):
            return
        if _may_be_sure(text, lowered):
            for found in _SURE.finditer(text):
                self._pairs(found, 0)
        if "==" in text or "already satisfied" in lowered or _IN_FILE_NAME.search(text):
            for found in _INSTALLED.finditer(text):
                self._pairs(found, 1)
                if text.lstrip().startswith("Successfully uninstalled"):
                    break
        if ("==" in text or "@" in text) and "require" not in lowered and "depends on" not in lowered:
            for found in _WEAK.finditer(text):
                self._pairs(found, 2)

    def result(self) -> dict[str, str]:
        """Package → version, sorted."""
        return {name: version for name, (_, version) in sorted(self._found.items())}

    def _pairs(self, found: re.Match[str], distrust: int) -> None:
        values = found.groupdict()
        for key in ("a", "b", "c", "d", "e"):
            if values.get(key) and values.get(f"{key}v"):
                self._take(values[key], values[f"{key}v"], distrust)
        for name in ("cuda", "nccl", "driver"):
            if values.get(name):
                self._take(name, values[name], distrust)
        if values.get("nvcc"):
            self._take("nvcc", values["nvcc"], distrust)

    def _take(self, name: str, version: str, distrust: int) -> None:
        name = name.lower()
        name = _SPELLED.get(name, name).replace("_", "-")
        known = self._found.get(name)
        if known is None or distrust < known[0]:
            self._found[name] = (distrust, version)
