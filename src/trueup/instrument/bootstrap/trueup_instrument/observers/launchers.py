"""What a launcher was asked to start, from its own arguments after it has merged its configuration."""

from __future__ import annotations

import base64
import json
import os
import sys

from trueup_instrument import patching, role
from trueup_instrument.announcements import spoken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any

    from trueup_instrument.patching import Arguments, Before
    from trueup_instrument.session import Session

NAME = "launchers"


def attach(session: Session) -> None:
    session.after_torch(NAME, "torch.distributed.launcher.api", lambda module: _torchrun(session, module))
    session.after_torch(NAME, "torch.multiprocessing.spawn", lambda module: _spawn(session, module))
    hook = session.guarded(NAME, lambda module: _accelerate(session, module))
    session.imports.after("accelerate.utils.launch", hook)
    if session.role == role.LAUNCHER:
        _deepspeed(session)


def say_launch(
    session: Session,
    name: str,
    processes: int | None,
    per_node: int | None = None,
    nodes: int | None = 1,
    started: int | None = None,
    **detail: Any,
) -> None:
    session.open()
    session.write(
        "launcher", name=name, processes=processes, per_node=per_node, nodes=nodes, started=started, detail=detail
    )
    if processes:
        session.request("launcher", "processes", processes, source=name)


# -- torchrun, python -m torch.distributed.run, torch.distributed.launch, elastic launches from Python -----------------


def _torchrun(session: Session, module: ModuleType) -> None:
    """All of them end in `launch_agent`, with numbers in place of `--nproc-per-node=gpu` and `--nnodes=1:4`."""

    def launches(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        config = args[0] if args else kwargs["config"]
        low, high, per_node = config.min_nodes, config.max_nodes, config.nproc_per_node
        say_launch(
            session,
            "torch.distributed.launch" if "torch.distributed.launch" in sys.orig_argv else "torchrun",
            processes=per_node * low if low == high else None,
            per_node=per_node,
            nodes=low if low == high else None,
            min_nodes=low,
            max_nodes=high,
            rdzv_backend=getattr(config, "rdzv_backend", None),
            max_restarts=getattr(config, "max_restarts", None),
        )

    patching.around(session, NAME, module, "launch_agent", before=launches)
    if hasattr(module, "ChildFailedError"):

        def gives_up(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
            _ranks_failed(session, *args[1:], **kwargs)

        patching.around(session, NAME, module.ChildFailedError, "__init__", after=gives_up)


def _ranks_failed(session: Session, name: str, failures: Mapping[int, Any]) -> None:
    """The agent gives up: these processes ended badly by themselves, the others were ended by it."""
    session.write(
        "ranks-failed",
        ranks=[
            {"rank": rank, "pid": failure.pid, "code": failure.exitcode, "t": failure.timestamp}
            for rank, failure in failures.items()
        ],
    )


# -- accelerate launch -------------------------------------------------------------------------------------------------


def _accelerate(session: Session, module: ModuleType) -> None:
    """Each way of launching first prepares its environment, also under `python -m accelerate.commands.launch`."""
    ways = {
        "prepare_simple_launcher_cmd_env": "simple",
        "prepare_multi_gpu_env": "multi_gpu",
        "prepare_deepspeed_cmd_env": "deepspeed",
        "prepare_tpu": "tpu",
    }
    for function, way in ways.items():
        patching.around(session, NAME, module, function, before=_accelerate_way(session, way))


def _accelerate_way(session: Session, way: str) -> Before:
    def launches(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        options = args[0] if args else kwargs["args"]
        processes = getattr(options, "num_processes", None) or None  # 0 is accelerate's count of CUDA devices on a CPU
        nodes = getattr(options, "num_machines", None) or 1
        one_process = way == "simple" and getattr(options, "mpirun_hostfile", None) is None
        say_launch(
            session,
            "accelerate launch",
            processes,
            per_node=max(processes // nodes, 1) if processes else None,
            nodes=nodes,
            started=1 if one_process else None,
            way=way,
            config_file=_accelerate_config(options),
            **{name: spoken(getattr(options, name, None)) for name in ACCELERATE_DETAIL},
        )

    return launches


ACCELERATE_DETAIL = (
    "cpu",
    "multi_gpu",
    "use_fsdp",
    "fsdp_version",
    "use_deepspeed",
    "dynamo_backend",
    "mixed_precision",
    "gradient_accumulation_steps",
)


def _accelerate_config(options: Any) -> Any:
    """The configuration file that was read: the one given, else the default one where there is one."""
    given = getattr(options, "config_file", None)
    default = getattr(sys.modules.get("accelerate.commands.config.config_args"), "default_config_file", None)
    if given is None and default and not getattr(options, "cpu", False) and os.path.isfile(default):
        return default
    return given


# -- deepspeed ---------------------------------------------------------------------------------------------------------


def _deepspeed(session: Session) -> None:
    """`deepspeed` starts `python -m deepspeed.launcher.launch --world_info=...` on each host: {host: [device, ..]}."""
    if "deepspeed.launcher.launch" not in sys.orig_argv:
        return
    for word in sys.orig_argv:
        if word.startswith("--world_info="):
            hosts = json.loads(base64.urlsafe_b64decode(word.partition("=")[2]))
            counts = [len(devices) for devices in hosts.values()]
            say_launch(session, "deepspeed", sum(counts), per_node=max(counts), nodes=len(counts))
            return


# -- torch.multiprocessing ---------------------------------------------------------------------------------------------


def _spawn(session: Session, module: ModuleType) -> None:
    for function in ("spawn", "start_processes"):
        original = getattr(module, function, None)
        if original is None:
            continue
        arguments = patching.arguments_of(original)

        def launches(args: tuple[Any, ...], kwargs: dict[str, Any], arguments: Arguments = arguments) -> None:
            given = arguments(args, kwargs)
            say_launch(
                session,
                "torch.multiprocessing.spawn",
                given.get("nprocs"),
                per_node=given.get("nprocs"),
                start_method=given.get("start_method"),
            )

        patching.around(session, NAME, module, function, before=launches, group="spawn")
