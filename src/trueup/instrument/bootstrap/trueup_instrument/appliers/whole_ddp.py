"""DDP without its reducer: the wrapper calls the module, gradients are averaged when a backward pass has ended.

The wrapper goes on as within `no_sync`: its hooks on gradients are there and do nothing, so that what the reducer makes
of the graph (parameters that are ready twice, or never) is no fault of such a run. Parameters that the ranks began
with, and buffers, are those of rank 0 as before. A program that asks for synchronization by the attribute gets DDP's
own: the mean of means is the mean.
"""

from __future__ import annotations

import contextlib

from trueup_instrument import modules
from trueup_instrument.appliers.averaging import Averaging, Unit
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

DDP = "torch.nn.parallel.distributed"
IN_HALF = ("fp16_compress_hook", "bf16_compress_hook")
"""Hooks that only compress: that is another layer."""


def attach(switch: Switch, averaging: Averaging) -> None:
    switch.after(DDP, lambda module: _Wrapper(switch, averaging).attach(module))


class _Wrapper:
    def __init__(self, switch: Switch, averaging: Averaging) -> None:
        self._switch = switch
        self._averaging = averaging

    def attach(self, module: ModuleType) -> None:
        kind = module.DistributedDataParallel
        silence, again = self._switch.guarded(self._silence), self._switch.guarded(self._again)
        tell = self._switch.guarded(lambda: self._switch.cannot("the communication hook of DDP is not called", "DDP"))

        def init(original: Callable[..., Any]) -> Callable[..., Any]:
            def __init__(wrapper: Any, *args: Any, **kwargs: Any) -> None:
                original(wrapper, *args, **kwargs)
                silence(wrapper)

            return __init__

        def join_hook(original: Callable[..., Any]) -> Callable[..., Any]:
            def join_hook(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
                again(wrapper)
                return original(wrapper, *args, **kwargs)

            return join_hook

        def register_comm_hook(original: Callable[..., Any]) -> Callable[..., Any]:
            def register_comm_hook(wrapper: Any, state: object, hook: Callable[..., Any]) -> Any:
                if getattr(hook, "__name__", "") not in IN_HALF:
                    tell()
                return original(wrapper, state, hook)

            return register_comm_hook

        def _set_static_graph(original: Callable[..., Any]) -> Callable[..., Any]:
            def _set_static_graph(wrapper: Any) -> None:
                original(wrapper)
                wrapper._static_graph_delay_allreduce_enqueued = True  # nothing is put off to the end of the first pass

            return _set_static_graph

        replace(kind, "__init__", init)
        replace(kind, "_set_static_graph", _set_static_graph)
        replace(kind, "join_hook", join_hook)
        replace(kind, "register_comm_hook", register_comm_hook)
        replace(kind, "no_sync", self._no_sync)
        replace(kind, "will_sync_module_buffers", _syncs_buffers)

    def _silence(self, wrapper: Any) -> None:
        if getattr(wrapper, "mixed_precision", None) is not None:
            self._switch.cannot("DDP with mixed precision of its own is not switched", modules.class_name(wrapper))
            return
        wrapper.require_backward_grad_sync = False
        left = set(getattr(wrapper, "parameters_to_ignore", ()))
        named = wrapper.module.named_parameters()
        ignored = [each for name, each in named if name in left or not each.requires_grad]
        self._averaging.add(Unit([wrapper], wrapper.process_group, ignored=ignored))
        change = f"gradients are averaged over {wrapper.process_group.size()} ranks after the backward pass"
        self._switch.changed(change, modules.class_name(wrapper.module))

    def _again(self, wrapper: Any) -> None:
        """Ranks that have joined follow what DDP's reducer does, and nothing else."""
        wrapper.require_backward_grad_sync = True
        self._averaging.leave(wrapper)
        self._switch.cannot("DDP stays where ranks may end early, within join()", modules.class_name(wrapper.module))

    def _no_sync(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @contextlib.contextmanager
        def no_sync(wrapper: Any) -> Iterator[None]:
            unit = self._averaging.unit_of(wrapper)
            if unit is None:
                with original(wrapper):
                    yield
                return
            before, unit.reduces = unit.reduces, False
            try:
                yield
            finally:
                unit.reduces = before

        return no_sync


def _syncs_buffers(original: Callable[..., Any]) -> Callable[..., Any]:
    def will_sync_module_buffers(wrapper: Any) -> bool:
        """DDP does not after a forward pass that it was not to reduce."""
        return bool(original(wrapper) or (wrapper.forward_sync_buffers and wrapper.modules_buffers))

    return will_sync_module_buffers
