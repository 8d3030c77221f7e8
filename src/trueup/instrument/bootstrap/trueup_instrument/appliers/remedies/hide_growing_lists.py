"""A list that compiled code only appends to is empty when that code begins, and gets what was appended afterwards.

Dynamo guards on the length of a list. Nothing but its length then differs from step to step, so that one graph serves
all; whoever reads the list between two calls finds it whole. Calls that are given other than plain values stay as they
are.
"""

from __future__ import annotations

import weakref

from trueup_instrument.appliers.appended import appended_lists
from trueup_instrument.appliers.compiled_calls import around_compiled_calls
from trueup_instrument.appliers.reached import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.appended import Place
    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    known: weakref.WeakKeyDictionary[Any, list[Place]] = weakref.WeakKeyDictionary()

    def around(module: Any, arguments: Any) -> tuple[Any, Callable[[], None] | None]:
        if not plain(arguments):
            return arguments, None
        places = known.get(module)
        if places is None:
            places = known[module] = appended_lists(module)
        hidden = [each for each in places if type(each[0].get(each[1])) is list]
        if not hidden:
            return arguments, None
        whole = [holder[key] for holder, key in hidden]
        added: list[list[Any]] = [[] for _ in hidden]
        for (holder, key), empty in zip(hidden, added, strict=True):
            holder[key] = empty

        def after() -> None:
            for (holder, key), values, new in zip(hidden, whole, added, strict=True):
                values.extend(new)
                holder[key] = values
                if new:
                    switch.changed(f"{key} is empty when compiled code begins", type(module).__name__)

        return arguments, after

    around_compiled_calls(switch, around)
