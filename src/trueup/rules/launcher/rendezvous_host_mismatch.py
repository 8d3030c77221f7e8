"""No node takes itself for the host of the rendezvous, or the others cannot reach it."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule
from trueup.schema.finding import Remedy

RULE = Rule(
    id="launcher/rendezvous-host-mismatch",
    title="No node recognises itself as rendezvous host",
    layers=("launcher",),
    severity="error",
    silent="",
    cause=(
        "Each agent compares the endpoint with its own names and addresses to decide whether it must host the store. "
        "An alias or the name of another network matches on no node, or a firewall closes the port."
    ),
    remedies=(
        Remedy(
            id="rendezvous-endpoint",
            kind="config-edit",
            automatic=True,
            how="--rdzv-endpoint=localhost:0 on one node; else the first node's name, as `hostname -f` prints it there",
        ),
        Remedy(
            id="rendezvous-is-host",
            kind="config-edit",
            automatic=False,
            how="--rdzv-conf is_host=1 on the first node and is_host=0 on the others, or --rdzv-backend=static with "
            "--master-addr and --node-rank",
        ),
        Remedy(
            id="test-rendezvous-port",
            kind="code",
            automatic=False,
            how="nc -vz HOST 29500 from another node, while the first one waits",
        ),
    ),
    caution="A port that is taken on the host node gives the same message on the others.",
    sources=("https://github.com/pytorch/pytorch/issues/73656",),
    log=(
        LogText(text="The connection to the C10d store has failed", versions="torch 1.9 or newer"),
        LogText(text="RendezvousConnectionError", versions="torch 1.9 or newer"),
        LogText(text="RendezvousTimeoutError", versions="torch 1.9 or newer"),
        LogText(
            text="Timed out after <number> seconds waiting for clients. <number>/<number> clients joined",
            versions="torch 1.10 or newer",
        ),
        LogText(text="The client socket has timed out after", strength="supporting", versions="torch 1.12 or newer"),
        LogText(
            text="The client socket has failed to connect to any network address of",
            strength="supporting",
            versions="torch 1.12 or newer",
        ),
        LogText(
            text="The client socket has failed to connect to", strength="supporting", versions="torch 1.12 or newer"
        ),
        LogText(text="network addresses of <endpoint> cannot be retrieved", versions="torch any"),
        LogText(
            text="has failed to send a keep-alive heartbeat to the rendezvous",
            strength="supporting",
            versions="torch 1.9 or newer",
        ),
        LogText(text="connect() timed out. Original timeout was", versions="torch 1.8 to 1.11"),
        LogText(
            text="Name or service not known", strength="supporting", versions="any", inside=("torch/distributed/",)
        ),
    ),
)
