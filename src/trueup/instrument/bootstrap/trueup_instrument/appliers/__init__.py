"""Forces layers of the stack to a value, as `trueup run --set LAYER=VALUE` asks, and applies remedies.

One file per layer, in `remedies` one per remedy, and in `order` what lets two layers change places. Each has
`attach(switch)`. It is loaded only in a run that asks for it, changes that and nothing else, and keeps the attributes
and classes that the user's code relies on. What each switch does, and where its limits are, is in
docs/decisions/0004-switches.md.
"""

from __future__ import annotations

import importlib.util
import json
import os
from itertools import pairwise

from trueup_instrument import role
from trueup_instrument.appliers.switch import Switch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.session import Session

SET = "TRUEUP_SET"
"""Layer → value as JSON, written by the launching trueup."""
REMEDIES = "TRUEUP_REMEDIES"
"""Ids of remedies as a JSON list, written by the launching trueup."""
ORDER = "TRUEUP_ORDER"
"""Layers as a JSON list, each to be applied before the next, written by the launching trueup."""
HELD = "TRUEUP_HELD"
"""Remedy → the variables that it sets, as JSON, written by the launching trueup."""
EAGER_RANDOM = "TRUEUP_EAGER_RANDOM"
"""Set for a run that is compared with an eager one."""
IN_LAUNCHERS = ("free-port", "launch-with-torchrun", "rendezvous-endpoint")
"""Remedies that change what a launcher does; all others act in ranks and their children."""
LAYERS = ("compile", "attention", "checkpointing", "precision", "sharding", "adapter", "data")
FINER = {
    ("sharding", "replicate"): "sharding_strategy",
    ("sharding", "grad_op"): "sharding_strategy",
    ("checkpointing", "reentrant"): "checkpoint_kinds",
    ("checkpointing", "non_reentrant"): "checkpoint_kinds",
    ("checkpointing", "off:"): "checkpoint_kinds",
    ("adapter", "off:"): "adapter_parts",
}
"""Values of a layer that have a file of their own; `:` stands for the names of parts."""


def attach_all(session: Session) -> None:
    """Attach the appliers that this run asks for; one that fails says so and the others go on."""
    layers, remedies, held = _asked(SET), _asked(REMEDIES), _asked(HELD)
    for remedy, variables in held.items() if isinstance(held, dict) else ():
        _attach(Switch(session, remedy, variables), f"{__name__}.held")
    if session.role == role.LAUNCHER:
        layers, remedies = None, [each for each in remedies or () if each in IN_LAUNCHERS]
    for layer, value in layers.items() if isinstance(layers, dict) else ():
        kind, sign, _ = str(value).partition(":")
        name = FINER.get((layer, kind + sign), layer)
        _attach(Switch(session, layer, value), f"{__name__}.{name}" if layer in LAYERS else None)
    for remedy in remedies if isinstance(remedies, list) else ():
        module = f"{__name__}.remedies.{str(remedy).replace('-', '_')}"
        value = held.get(remedy, True) if isinstance(held, dict) else True
        _attach(Switch(session, remedy, value), module if importlib.util.find_spec(module) else None)
    order = _asked(ORDER) if session.role != role.LAUNCHER else None
    for first, second in pairwise(order) if isinstance(order, list) else ():
        _attach(Switch(session, f"{first} before {second}", True), f"{__name__}.order")
    if EAGER_RANDOM in os.environ and session.role != role.LAUNCHER:
        _attach(Switch(session, "eager-random", True), f"{__name__}.eager_random")


def _attach(switch: Switch, module: str | None) -> None:
    if module is None:
        switch.cannot("this trueup has no such applier")
    else:
        switch.guarded(lambda: importlib.import_module(module).attach(switch))()


def _asked(variable: str) -> Any:
    try:
        return json.loads(os.environ.get(variable) or "null")
    except ValueError:
        return None
