"""accelerate launch on a CPU starts as many processes as it was asked for, by torchrun."""

from __future__ import annotations

import os

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("accelerate.commands.launch", lambda module: _launcher(switch, module))


def _launcher(switch: Switch, module: ModuleType) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def simple_launcher(args: Any) -> Any:
            if not _is_many_on_cpu(args):
                return original(args)
            switch.changed(f"{args.num_processes} processes by torchrun, was one", "accelerate launch")
            os.environ["ACCELERATE_USE_CPU"] = "true"
            args.main_process_port = args.main_process_port or 0
            return module.multi_gpu_launcher(args)

        return simple_launcher

    replace(module, "simple_launcher", make)


def _is_many_on_cpu(args: Any) -> bool:
    """On one machine, without MPI; a script that is no Python cannot tell its rank from torchrun's variables."""
    by_mpi = getattr(args, "mpirun_hostfile", None) is not None
    on_cpu = getattr(args, "cpu", False) or getattr(args, "use_cpu", False)
    return bool(on_cpu and not by_mpi and (args.num_processes or 1) > 1 and (args.num_machines or 1) == 1)
