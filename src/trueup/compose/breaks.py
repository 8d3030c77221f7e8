"""Graph breaks and recompiles of the block that is being called, from torch's own structured trace.

The observers' reader of that trace is used; here its events go to the running block instead of into a file.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from trueup.compose.variants import running
from trueup.instrument import inside

VARIANT = re.compile(r"^\d+/\d+: ")
"""Before each reason stands the variant whose guard failed."""

if TYPE_CHECKING:
    from trueup_instrument.session import Session


class _Listener:
    """Stands where the reader expects a session."""

    compile_activity = 0
    optimizer_compiled = False
    clock = None

    def guarded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, whose failure costs what it would have told and nothing else."""
        from trueup_instrument.dynamo import unseen

        function = unseen(function)

        def call(*args: Any) -> None:
            try:
                function(*args)
            except Exception:
                logging.getLogger(__name__).debug("%s failed", name, exc_info=True)

        return call

    def write(self, kind: str, what: str = "", **fields: Any) -> None:
        block = running.block
        if block is None:
            return
        at = f" at {fields['at']}" if fields.get("at") else ""
        if what == "break":
            block.breaks[f"{fields['reason']}{at}"] += 1
        elif what == "recompile":
            block.recompiles[VARIANT.sub("", fields["reasons"][0])] += 1
        elif what == "limit":
            block.given_up[f"Dynamo's {fields['limit']} was reached{at}"] += 1
        elif what == "failure":
            block.given_up[f"{fields['error']}{at}"] += 1
        elif what == "graph":
            block.checkpoints += fields.get("checkpoints") or 0


_listening = False


def listen() -> None:
    """Hear torch's trace from now on, once for the process. It speaks only while something is compiled."""
    global _listening
    if _listening:
        return
    inside.make_importable()
    from trueup_instrument.observers.compile_trace import LOGGER, LimitFilter, TraceHandler

    listener = cast("Session", _Listener())
    logger = logging.getLogger(LOGGER)
    logger.addHandler(TraceHandler(listener))
    logger.setLevel(logging.DEBUG)
    logging.getLogger("torch._dynamo.convert_frame").addFilter(LimitFilter(listener))
    _listening = True
