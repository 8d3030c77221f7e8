"""The peak of this rank's memory so far: torch's allocator on CUDA, else the resident set of the process."""

import sys

NAME = "memory"


class Window:
    def __init__(self, sample):
        self.session = sample.session

    def fields(self):
        write_peak(self.session)
        return {}


def write_peak(session):
    peak, source = peak_bytes()
    if peak is not None:
        session.write("memory", peak_bytes=peak, source=source)


def peak_bytes():
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
