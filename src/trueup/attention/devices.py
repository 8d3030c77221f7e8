"""GPUs by the names that people use: `h100`, `RTX 4090`, `sm_90`, `9.0`."""

from __future__ import annotations

import re

from trueup.attention.call import Version
from trueup.environment.gpus import capability_of

CODE = re.compile(r"(?:sm|compute|capability)?[ _=]?(?P<major>\d{1,2})\.?(?P<minor>\d)[af]?", re.IGNORECASE)
EXAMPLES = "h100, a100, l4, t4, b200, 'rtx 4090', sm_90, 9.0 or cpu"


class UnknownGpu(ValueError):
    """No NVIDIA GPU of that name is known."""


def capability(name: str) -> Version | None:
    """Compute capability of the GPU with this name, None for `cpu`. Raises UnknownGpu."""
    if name.strip().lower() == "cpu":
        return None
    code = CODE.fullmatch(name.strip())
    if code is not None:
        return int(code["major"]), int(code["minor"])
    spelled = re.sub(r"\b(RTX|GTX)(?=\d)", r"\1 ", name.upper()).replace("ADA GENERATION", "Ada Generation")
    found = next(filter(None, (capability_of(prefix + spelled) for prefix in ("", "RTX ", "GTX "))), None)
    if found is None:
        raise UnknownGpu(f"no NVIDIA GPU called {name} is known; give {EXAMPLES}")
    major, _, minor = found.partition(".")
    return int(major), int(minor)
