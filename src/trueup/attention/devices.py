"""GPUs by the names that people use: `h100`, `RTX 4090`, `sm_90`, `9.0`."""

from __future__ import annotations

import platform
import re

from trueup.attention.call import Version
from trueup.environment.gpus import capability_of

CODE = re.compile(r"(?:sm|compute|capability)?[ _=]?(?P<major>\d{1,2})\.?(?P<minor>\d)[af]?", re.IGNORECASE)
AMD = re.compile(r"\b(?:MI\d{2,3}[AX]?|gfx\w+|Radeon|Instinct)\b", re.IGNORECASE)
EXAMPLES = "h100, a100, l4, t4, b200, 'rtx 4090', sm_90, 9.0 or cpu"


class UnknownGpu(ValueError):
    """Nothing is known of a GPU of that name."""


def capability(name: str) -> Version | None:
    """Compute capability of the GPU with this name, None for `cpu`. Raises UnknownGpu."""
    if name.strip().lower() == "cpu":
        return None
    code = CODE.fullmatch(name.strip())
    if code is not None:
        return int(code["major"]), int(code["minor"])
    spelled = re.sub(r"\b(RTX|GTX)(?=\d)", r"\1 ", name, flags=re.IGNORECASE)
    found = next(filter(None, (capability_of(prefix + spelled) for prefix in ("", "RTX ", "GTX "))), None)
    if found is None and AMD.search(name):
        raise UnknownGpu(f"{name} is a GPU of AMD: the kernels of ROCm are not described; give {EXAMPLES}")
    if found is None:
        raise UnknownGpu(f"no NVIDIA GPU called {name.strip() or 'nothing'} is known; give {EXAMPLES}")
    major, _, minor = found.partition(".")
    return int(major), int(minor)


def processor(cpuinfo: str) -> str:
    """The name of this machine's CPU out of the text of /proc/cpuinfo, which tells none on ARM: then its kind."""
    lines = cpuinfo.splitlines()
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()
