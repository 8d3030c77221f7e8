"""Each rank has folders of its own for what the compiler and Triton keep."""

from __future__ import annotations

import getpass
import os
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.appliers.switch import Switch


VARIABLES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def attach(switch: Switch) -> None:
    """The variables are read when the first graph is compiled."""
    rank = os.environ.get("LOCAL_RANK")
    if rank is None or os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1")) == "1":
        return
    names = {"TORCHINDUCTOR_CACHE_DIR": f"torchinductor_{getpass.getuser()}", "TRITON_CACHE_DIR": "triton"}
    for variable in VARIABLES:
        folder = os.environ.get(variable) or os.path.join(tempfile.gettempdir(), names[variable])
        os.environ[variable] = os.path.join(folder, f"rank-{rank}")
    switch.changed(f"{' and '.join(VARIABLES)} end in rank-{rank}")
