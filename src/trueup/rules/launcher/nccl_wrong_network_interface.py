"""NCCL or Gloo chose an interface that the other nodes cannot reach."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule
from trueup.schema.finding import Remedy

RULE = Rule(
    id="launcher/nccl-wrong-network-interface",
    title="NCCL or RCCL selects the wrong network interface",
    layers=("launcher",),
    severity="error",
    silent="",
    cause=(
        "The library takes an interface by its own order, which may be a bridge of Docker or a virtual one that the "
        "other "
        "node cannot reach."
    ),
    remedies=(
        Remedy(
            id="nccl-interface",
            kind="env-var",
            automatic=False,
            how="NCCL_SOCKET_IFNAME=eth0 GLOO_SOCKET_IFNAME=eth0, the interface of the common network (ip -br addr)",
        ),
        Remedy(
            id="show-nccl-interface",
            kind="env-var",
            automatic=False,
            how="NCCL_DEBUG=INFO prints which one was chosen (Bootstrap : Using ...)",
        ),
    ),
    caution="On one host suspect shared memory instead.",
    log=(
        LogText(text="no socket interface found", versions="NCCL: Bootstrap"),
        LogText(text="No usable listening interface found", versions="NCCL"),
        LogText(text="socketStartConnect: Connect to <address> failed", versions="NCCL 2.12 or newer"),
        LogText(text="socketPollConnect: Connect to <address> failed", versions="NCCL 2.12 or newer"),
        LogText(text="socketFinalizeConnect", strength="supporting", versions="NCCL 2.13 or newer"),
        LogText(text="Call to connect failed", strength="supporting", versions="NCCL 2.2 or newer"),
        LogText(
            text="connecting to address with family", versions="NCCL 2.14 or newer, an interface without an address"
        ),
        LogText(text="Unable to find address for:", versions="Gloo, with GLOO_SOCKET_IFNAME"),
        LogText(text="Unable to find interface for:", versions="Gloo"),
        LogText(text="Gloo connectFullMesh failed", versions="torch 2.1 or newer"),
        LogText(
            text="System call (e.g. socket, malloc) or external library call failed or device error",
            strength="supporting",
            versions="NCCL 2.13 or newer",
        ),
        LogText(text="unhandled system error", strength="supporting", versions="torch any, about NCCL"),
    ),
)
