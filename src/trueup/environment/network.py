"""Names of network interfaces, and whether the port of a launch is taken."""

from __future__ import annotations

from trueup.environment.host import Host, names_in

LISTENING = "0A"
DEFAULT_PORT = "29500"
"""Of torchrun, `accelerate launch` and deepspeed on one machine."""


def interfaces(host: Host) -> tuple[str, ...]:
    """Names of the network interfaces."""
    return tuple(names_in(host.path("/sys/class/net")))


def ports(host: Host, *wanted: str) -> dict[str, bool]:
    """Whether something listens on the port that a launch from here would take; nothing is bound to find out."""
    listening = _listening(host)
    if listening is None:
        return {}
    numbers = [port for port in (host.variables.get("MASTER_PORT"), *wanted) if port] or [DEFAULT_PORT]
    return {port: int(port) in listening for port in numbers if port.isdigit()}


def _listening(host: Host) -> set[int] | None:
    """Ports with a listening socket. https://www.kernel.org/doc/Documentation/networking/proc_net_tcp.txt"""
    tables = [text for file in ("/proc/net/tcp", "/proc/net/tcp6") if (text := host.text(file)) is not None]
    found = set()
    for line in (line for table in tables for line in table.splitlines()[1:]):
        words = line.split()
        if len(words) > 3 and words[3] == LISTENING:
            try:
                found.add(int(words[1].rpartition(":")[2], 16))
            except ValueError:
                continue
    return found if tables else None
