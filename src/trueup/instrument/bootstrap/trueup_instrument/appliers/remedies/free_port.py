"""Stores and rendezvous of a job on one machine take a port that is free."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import change_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

PORT = "TRUEUP_FREE_PORT"
"""One for all processes of the run, chosen by the launching trueup."""
HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "")


def attach(switch: Switch) -> None:
    port = switch.value[PORT]
    switch.after("torch.distributed.launcher.api", lambda module: _launcher(switch, module, port))
    switch.after("torch.distributed.rendezvous", lambda module: _store(switch, module, int(port)))


def _launcher(switch: Switch, module: ModuleType, port: str) -> None:
    """torchrun and its relatives: the endpoint of a launch on one node. Port 0 is free already."""

    def choose(arguments: dict[str, Any]) -> None:
        config = arguments["config"]
        host, colon, asked = (config.rdzv_endpoint or "").rpartition(":")
        if not colon:
            host, asked = asked, ""
        if config.max_nodes == 1 and asked not in ("0", port):
            config.rdzv_endpoint = f"{host or 'localhost'}:{port}"
            switch.changed(f"rdzv_endpoint = {config.rdzv_endpoint}, was port {asked or 'of its own choice'}")

    change_arguments(switch, module, "launch_agent", choose)


def _store(switch: Switch, module: ModuleType, port: int) -> None:
    """`env://` and `tcp://` at this machine. Where torchrun hosts the store its port is the launcher's."""

    def choose(arguments: dict[str, Any]) -> None:
        served = module._torchelastic_use_agent_store()
        if not served and arguments["hostname"] in HERE and arguments["port"] != port:
            switch.changed(f"store at port {port}, was {arguments['port']}")
            arguments["port"] = port

    change_arguments(switch, module, "_create_c10d_store", choose)
