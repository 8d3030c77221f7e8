"""`trueup attention`: which attention kernel runs, why, and how fast; one file per command."""

from __future__ import annotations

import click

from trueup.cli.attention_bench import bench
from trueup.cli.attention_explain import explain


@click.group(subcommand_metavar="COMMAND ...")
def attention() -> None:
    """Attention kernels: which one serves a call, and why not a better one."""


for command in (explain, bench):
    attention.add_command(command)
