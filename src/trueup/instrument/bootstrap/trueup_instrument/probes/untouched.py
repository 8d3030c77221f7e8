"""The state that a forward pass leaves behind, kept and put back: random numbers, buffers, attributes, what hooks hold.

Parameters are not written to by a forward pass. What is put back is what differs, in place where it is a tensor.
"""

from __future__ import annotations

import sys

from trueup_instrument.probes.calls import is_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

LARGEST = 4 << 30
"""Bytes of buffers that are copied; with more, nothing is run."""
HELD_BY_TORCH = ("_parameters", "_modules", "_buffers")
WRAPPERS = ("FullyShardedDataParallel",)
"""Modules whose attributes are the wrapper's own business between two forward passes."""


class TooMuchState(Exception):
    """More bytes of buffers than are copied."""


class Untouched:
    """The state of a model and of the random numbers, as it is when this is made. `put_back` may be called often."""

    def __init__(self, root: Any) -> None:
        self._put_back: list[Callable[[], object]] = list(_random_states())
        self._seen: set[int] = set()
        self._room = LARGEST
        layers = list(root.modules())
        flat = any(type(layer).__name__ in WRAPPERS for layer in layers)
        for layer in layers:
            if type(layer).__name__ not in WRAPPERS:
                self._keep_module(layer, flat)
            for hook in _hooks(layer):
                self._keep_hook(hook)
        for state in _sharding_states(layers):
            self._keep_order(state)

    def put_back(self) -> None:
        with sys.modules["torch"].no_grad():
            for each in self._put_back:
                each()

    def _keep_module(self, layer: Any, flat: bool) -> None:
        own = layer.__dict__
        self._keep_container(layer._buffers)
        for tensor in layer._buffers.values():
            self._keep_value(tensor)
        names = {name for name in own if name not in HELD_BY_TORCH and not name.endswith("_hooks")}
        held = {name: own[name] for name in names if not (flat and is_tensor(own[name]))}

        def back() -> None:
            for name, value in held.items():
                if own.get(name) is not value:
                    own[name] = value
            for name in [name for name in own if name not in names and name not in HELD_BY_TORCH]:
                if not name.endswith("_hooks") and not (flat and is_tensor(own[name])):
                    del own[name]

        self._put_back.append(back)
        for value in held.values():
            self._keep_value(value)

    def _keep_value(self, value: Any) -> None:
        if is_tensor(value):
            self._keep_tensor(value)
        elif type(value).__name__ == "Generator" and hasattr(value, "get_state"):
            state = value.get_state()
            self._put_back.append(lambda: value.set_state(state))
        else:
            self._keep_container(value)

    def _keep_container(self, value: Any) -> None:
        if id(value) in self._seen:
            return
        if isinstance(value, dict):
            items = dict(value)

            def back_items() -> None:
                if list(map(id, value.values())) != list(map(id, items.values())) or list(value) != list(items):
                    value.clear()
                    value.update(items)

            self._put_back.append(back_items)
        elif isinstance(value, list):
            entries = list(value)

            def back_entries() -> None:
                if list(map(id, value)) != list(map(id, entries)):
                    value[:] = entries

            self._put_back.append(back_entries)
        elif isinstance(value, set):
            members = set(value)

            def back_members() -> None:
                if value != members:
                    value.clear()
                    value.update(members)

            self._put_back.append(back_members)
        else:
            return
        self._seen.add(id(value))

    def _keep_tensor(self, tensor: Any) -> None:
        if id(tensor) in self._seen or getattr(tensor, "is_meta", False) or type(tensor).__name__ == "Parameter":
            return
        self._seen.add(id(tensor))
        self._room -= tensor.numel() * tensor.element_size()
        if self._room < 0:
            raise TooMuchState(f"its modules hold more than {LARGEST >> 30} GiB of buffers")
        torch = sys.modules["torch"]
        with torch.no_grad():
            kept = tensor.detach().clone()

        def back() -> None:
            if not torch.equal(tensor, kept):  # BatchNorm writes its statistics without a new version
                tensor.data.copy_(kept)  # with no new version either: graphs that hold the tensor stay valid

        self._put_back.append(back)

    def _keep_hook(self, hook: Any) -> None:
        """A hook counts or collects in the object that it is a method of, or in what it closes over."""
        function = getattr(hook, "__func__", hook)
        if (getattr(function, "__module__", None) or "").partition(".")[0] in ("torch", "accelerate", "transformers"):
            return
        owner = getattr(hook, "__self__", None)
        if owner is not None and not hasattr(owner, "_modules") and hasattr(owner, "__dict__"):
            self._keep_container(vars(owner))
            for value in list(vars(owner).values()):
                self._keep_value(value)
        for cell in getattr(function, "__closure__", None) or ():
            self._keep_cell(cell)

    def _keep_cell(self, cell: Any) -> None:
        try:
            value = cell.cell_contents
        except ValueError:  # empty
            return
        self._keep_value(value)

        def back() -> None:
            if cell.cell_contents is not value:
                cell.cell_contents = value

        self._put_back.append(back)

    def _keep_order(self, state: Any) -> None:
        """FSDP2 notes each forward pass of a unit for the backward pass that follows, which here none does."""
        groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
        for group in groups:
            for owner, name in (
                (group, "_post_forward_indices"),
                (getattr(group, "comm_ctx", None), "post_forward_order"),
            ):
                self._keep_container(getattr(owner, name, None))


def _sharding_states(layers: list[Any]) -> Iterator[Any]:
    for layer in layers:
        if hasattr(type(layer), "_get_fsdp_state"):
            yield layer._get_fsdp_state()


def _hooks(layer: Any) -> Iterator[Any]:
    for name, held in layer.__dict__.items():
        if name.endswith("_hooks") and isinstance(held, dict):
            yield from held.values()


def _random_states() -> Iterator[Callable[[], object]]:
    """Functions that put back the generators that programs draw from: torch's of each device, Python's, NumPy's."""
    torch = sys.modules["torch"]
    state = torch.get_rng_state()
    yield lambda: torch.set_rng_state(state)
    for name in ("cuda", "xpu"):
        device = getattr(torch, name, None)
        if device is not None and device.is_initialized():
            for generator in getattr(device, "default_generators", ()):
                yield _generator(generator)
    random = sys.modules.get("random")
    if random is not None:
        drawn = random.getstate()
        yield lambda: random.setstate(drawn)
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        legacy = numpy.get_state()
        yield lambda: numpy.set_state(legacy)


def _generator(generator: Any) -> Callable[[], object]:
    state = generator.get_state()
    return lambda: generator.set_state(state)
