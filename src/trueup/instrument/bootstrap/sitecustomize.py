"""Start observation in this interpreter, then run the sitecustomize that this one shadows.

Python imports the first `sitecustomize` on its path; `trueup run` puts this folder there. Whatever happens here, the
user's program goes on.
"""

from __future__ import annotations

import sys


def _chain(here: str) -> None:
    """Run the sitecustomize that would have been imported had this folder not been on the path."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    rest = [entry for entry in sys.path if entry.rstrip("/") != here]
    spec = PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _start(here: str) -> None:
    try:
        if here not in sys.path:
            sys.path.insert(0, here)
        from trueup_instrument import start

        start()
    except Exception as error:
        import os

        if os.environ.get("TRUEUP_DEBUG"):
            sys.stderr.write(f"trueup: observation did not start: {error!r}\n")


_here = __file__.rpartition("/")[0]
_start(_here)
_chain(_here)
