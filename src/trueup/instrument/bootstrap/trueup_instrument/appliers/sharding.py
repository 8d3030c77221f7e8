"""`sharding=off`: every rank holds the whole model, and gradients are averaged over all ranks as before.

The layer is gone, not only without effect: no flat parameter, no DTensor, no hook and no collective within the forward
and backward passes, so that what fails because of them passes. Replicating by FSDP's own means (NO_SHARD, a mesh that
only replicates) would keep all of that. Wrappers, classes and methods stay for those who use them; the mixed precision
that a wrapper brings stays too, it is another layer.

So with DDP: its reducer is silent, and Dynamo no longer splits graphs where its buckets end.
"""

from __future__ import annotations

from trueup_instrument.appliers import sharding_units, whole_ddp, whole_fsdp1, whole_fsdp2
from trueup_instrument.appliers.averaging import Averaging
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    averaging = Averaging(switch)
    if switch.parts is not None:
        sharding_units.attach(switch, averaging)
        return
    whole_ddp.attach(switch, averaging)
    whole_fsdp1.attach(switch, averaging)
    whole_fsdp2.attach(switch, averaging)
    switch.after("torch.nn.parallel.distributed", lambda module: _in_one_graph(switch, module))
    switch.after("torch.distributed.tensor.parallel.api", lambda module: _tensor_parallel(switch, module))
    switch.after("deepspeed", lambda module: switch.cannot("DeepSpeed's ZeRO is not switched", "deepspeed"))


def _in_one_graph(switch: Switch, module: ModuleType) -> None:
    """Dynamo asks for the DDP module that is running, to split its graph in buckets; nobody else does."""
    tell = switch.guarded(lambda: switch.changed("graphs are not split in DDP's buckets", "DistributedDataParallel"))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def _get_active_ddp_module(cls: Any) -> None:
            if original(cls) is not None:
                tell()

        return _get_active_ddp_module

    replace(module.DistributedDataParallel, "_get_active_ddp_module", make)


def _tensor_parallel(switch: Switch, module: ModuleType) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def parallelize_module(*args: Any, **kwargs: Any) -> Any:
            switch.cannot("tensor parallelism is not switched", "parallelize_module")
            return original(*args, **kwargs)

        return parallelize_module

    replace(module, "parallelize_module", make)
