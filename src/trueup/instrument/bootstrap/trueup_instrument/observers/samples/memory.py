"""The peak of this rank's memory so far: torch's allocator on CUDA, else the resident set of the process."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.sampling import Sample
    from trueup_instrument.session import Session

NAME = "memory"


class Window:
    def __init__(self, sample: Sample) -> None:
        self.session = sample.session

    def fields(self) -> dict[str, Any]:
        write_peak(self.session)
        return {}


def write_peak(session: Session) -> None:
    peak, source = peak_bytes()
    if peak is not None:
        session.write("memory", peak_bytes=peak, source=source)


def peak_bytes() -> tuple[int, str] | tuple[None, None]:
    """(bytes, where the number comes from). Reads counters only; resets nothing."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_available() and cuda.is_initialized():
        return int(cuda.max_memory_allocated()), "cuda allocator"
    try:
        import resource
    except ImportError:
        return None, None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, "resident set"
