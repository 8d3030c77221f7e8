"""The port of the store or rendezvous is taken."""

from __future__ import annotations

import re

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import configured, said, variable
from trueup.rules.log_facts import mentions, passes
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

LISTENING = (
    r"server socket has failed to (?:bind|listen)|EADDRINUSE|[Aa]ddress already in use|another process is utilizing it"
)
PORT = re.compile(r"(?:port:? ?|\]:|\d:|localhost:)(\d{4,5})\b")
NAME = re.compile(r"name: (E[A-Z]+)|errno:? (-?\d+)|Errno (\d+)")
IN_USE = {"EADDRINUSE", "98", "48", "10048"}
"""Linux, macOS and Windows."""

DISTRIBUTED = ("torch/distributed/", "accelerate/commands/", "accelerate/utils/launch.py", "deepspeed/launcher/")


def detect_log(log: Log) -> Sighting | None:
    """The error of a listening socket of torch; the address that another server wants does not count."""
    for seen in mentions(log, LISTENING):
        text = seen.part.said
        codes = {code for found in NAME.findall(text) for code in found if code}
        if codes and not {code.lstrip("-") for code in codes} & IN_USE:
            continue
        of_torch = bool(re.search(r"c10d|server socket|EADDRINUSE|another process is utilizing", text))
        if not of_torch and not passes(seen.failure, *DISTRIBUTED):
            continue
        port = PORT.search(text)
        return Sighting(
            message=f"The port of the store{f', {port[1]},' if port else ''} is taken by another process.",
            evidence=(seen.evidence(log), *((Evidence(what="port", value=int(port[1])),) if port else ())),
            failure=seen.failure,
        )
    return None


def detect_in_environment(environment: Environment) -> Sighting | None:
    taken = [port for port, in_use in environment.ports.items() if in_use]
    if not taken:
        return None
    settings = (variable(environment, "MASTER_PORT"), configured(environment, "main_process_port"))
    chosen = next((setting for setting in settings if setting is not None and setting.value in taken), None)
    port = chosen.value if chosen else taken[0]
    purpose = "which is set for the next launch" if chosen else "the default of launchers"
    return Sighting(
        message=f"Port {port}, {purpose}, is taken on this machine.",
        evidence=(
            Evidence(what=f"listening on port {port}", value=True, at="/proc/net/tcp"),
            *((said(chosen),) if chosen else ()),
        ),
        severity="warning" if chosen else "note",
        remedies=(
            Remedy(
                id="free-rendezvous-port",
                kind="env-var",
                automatic=False,
                how="torchrun --standalone …, or another MASTER_PORT (accelerate launch --main_process_port 0)",
            ),
            Remedy(
                id="find-port-holder",
                kind="code",
                automatic=False,
                how=f"ss -ltnp 'sport = :{port}' shows who holds it",
            ),
        ),
    )


RULE = Rule(
    id="launcher/master-port-in-use",
    title="Master or rendezvous port already in use",
    layers=("launcher",),
    severity="error",
    silent="",
    cause=(
        "All launches on a host share the default ports 29500 and 29400, and processes of a job that died may still "
        "hold them."
    ),
    remedies=(
        Remedy(
            id="free-port",
            kind="env-var",
            automatic=True,
            how="torchrun --standalone (one node), or --rdzv-endpoint=HOST:PORT with a port made from the job id; "
            "accelerate: --main_process_port 0; env://: MASTER_PORT",
        ),
        Remedy(
            id="end-leftovers",
            kind="code",
            automatic=False,
            how="ss -ltnp 'sport = :29500' names the process; end it if it is a leftover of yours",
        ),
    ),
    caution="The text about listening covers other errors of sockets: the code and name behind it decide.",
    sources=("https://github.com/pytorch/pytorch/issues/116974",),
    explains=("launcher/rendezvous-host-mismatch",),
    log=(
        LogText(text="Tried to launch distributed communication on port", versions="accelerate"),
        LogText(
            text="Address already in use",
            strength="supporting",
            versions="any server",
            inside=("torch/distributed/", "accelerate/", "deepspeed/"),
        ),
        LogText(
            text="The server socket has failed to listen on any local network address",
            strength="supporting",
            versions="torch 1.12 or newer",
        ),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
