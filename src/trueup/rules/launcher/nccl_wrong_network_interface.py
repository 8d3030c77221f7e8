"""NCCL or Gloo chose an interface that the other nodes cannot reach."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import machines, said, variable
from trueup.schema.environment import Environment, Setting
from trueup.schema.finding import Evidence, Remedy

VIRTUAL = ("docker", "br-", "virbr", "veth", "cni", "flannel", "cali", "tun", "tap", "wg", "tailscale")


def detect_in_environment(environment: Environment) -> Sighting | None:
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
        chosen = variable(environment, name)
        if chosen is not None and environment.interfaces and not _matches(chosen, environment.interfaces):
            return Sighting(
                message=f"{name}={chosen.value} names no network interface of this machine.",
                evidence=(said(chosen), Evidence(what="interfaces", value=", ".join(environment.interfaces))),
                severity="warning",
            )
    virtual = [name for name in environment.interfaces if name.startswith(VIRTUAL)]
    if machines(environment) < 2 or not virtual or variable(environment, "NCCL_SOCKET_IFNAME"):
        return None
    return Sighting(
        message=(
            f"The job spans {machines(environment)} machines, this one has the virtual interface {virtual[0]}, and no "
            "interface is chosen."
        ),
        evidence=(Evidence(what="interfaces", value=", ".join(environment.interfaces)),),
        confidence="possible",
        severity="note",
    )


def _matches(chosen: Setting, interfaces: tuple[str, ...]) -> bool:
    """`eth,ib` are beginnings, `=eth0` a whole name, `^docker` what to leave out.

    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname
    """
    text = chosen.value
    negated, text = text.startswith("^"), text.removeprefix("^")
    exact, text = text.startswith("="), text.removeprefix("=")
    names = [name.strip() for name in text.split(",") if name.strip()]
    whole = exact or chosen.name == "GLOO_SOCKET_IFNAME"
    hit = [each for each in interfaces if any(each == name if whole else each.startswith(name) for name in names)]
    return len(hit) < len(interfaces) if negated else bool(hit)


RULE = Rule(
    id="launcher/nccl-wrong-network-interface",
    title="NCCL or RCCL selects the wrong network interface",
    layers=("launcher",),
    severity="error",
    silent="",
    cause=(
        "The library takes an interface by its own order, which may be a bridge of Docker or a virtual one that the "
        "other node cannot reach."
    ),
    remedies=(
        Remedy(
            id="nccl-interface",
            kind="env-var",
            automatic=True,
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
        LogText(text="socketStartConnect", versions="NCCL 2.12 or newer"),
        LogText(text="socketPollConnect", versions="NCCL 2.12 or newer"),
        LogText(text="Connect to <address> failed : No route to host", versions="NCCL 2.4 or newer"),
        LogText(text="Connect to <address> failed : Connection timed out", versions="NCCL 2.4 or newer"),
        LogText(text="Connect to <address> failed : Connection refused", versions="NCCL 2.4 or newer"),
        LogText(text="connect to <address> failed : <reason>", strength="supporting", versions="NCCL 2.4 or newer"),
        LogText(text="No interface found in the same subnet as remote address", versions="NCCL any"),
        LogText(
            text="Call to <operation> <address> failed : <reason>", strength="supporting", versions="NCCL 2.4 to 2.14"
        ),
        LogText(text="Call to connect failed", strength="supporting", versions="NCCL 2.2 or newer"),
        LogText(text="NET/IB : Got completion from peer", strength="supporting", versions="NCCL any, InfiniBand"),
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
        LogText(
            text="unhandled system error",
            strength="supporting",
            versions="torch any, about NCCL",
            not_with=("ncclSystemError",),
        ),
    ),
    from_environment=detect_in_environment,
)
