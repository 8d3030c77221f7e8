"""Where this project keeps what it computes."""

import os
from pathlib import Path

SCRATCH = Path(__file__).parent / "scratch"


def configure():
    """The scratch of the node, which is a file on this one: the mount is missing."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(SCRATCH / "inductor")
