"""Asking for attention weights replaced the fused kernel by eager attention."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting, within
from trueup.rules.facts import applied, asked, installed, percent
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

SWAPPED = {"transformers": ">=4.36,<4.53"}
"""Releases that put eager attention in place of the fused kernel."""


def detect(record: Record) -> Sighting | None:
    attention = record.actual.attention
    requested = asked(record, "attention", "implementation") or attention.requested
    wanted = [each for each in applied(record, "config") if each.detail.get("output_attentions")]
    eager = sum(kernel.share for kernel in attention.kernels if kernel.name == "eager")
    if not within(installed(record), SWAPPED) or not wanted or eager == 0 or requested in (None, "eager"):
        return None
    return Sighting(
        message=(
            f"output_attentions is on, and {percent(eager)} of the attention calls ran eager instead of {requested}."
        ),
        evidence=(
            Evidence(what="output_attentions", value=True, at=wanted[0].at),
            Evidence(what="attention implementation requested", value=str(requested)),
            Evidence(what="share of attention calls that ran eager", value=eager),
        ),
    )


RULE = Rule(
    id="attention/output-attentions-forces-eager",
    title="Requesting attention weights replaces the fast kernel",
    layers=("attention", "trainer"),
    severity="warning",
    silent="The configuration still names the fused implementation.",
    cause=(
        "Fused kernels never form the probability matrix, so transformers before 4.53 swapped in eager "
        "attention when weights were asked for, also by library code that always asks."
    ),
    remedies=(
        Remedy(
            id="no-output-attentions",
            kind="in-process",
            automatic=True,
            how="output_attentions=False in configuration and call; a second, eager model where the weights are needed",
        ),
    ),
    caution="Newer transformers keeps the fused kernel and returns no weights, or raises.",
    sources=("https://github.com/sillsdev/machine.py/issues/201",),
    from_record=detect,
    log=(
        LogText(
            text="The `output_attentions` attribute is not supported when using the `attn_implementation` set to",
            versions="transformers 4.53 and newer, raised",
        ),
        LogText(
            text=(
                "<model> is using <attention>, but `torch.nn.functional.scaled_dot_product_attention` does not support"
            ),
            versions="transformers 4.36 to 4.47",
        ),
        LogText(
            text="`torch.nn.functional.scaled_dot_product_attention` does not support `output_attentions=True`",
            versions="transformers 4.36 to 4.52",
        ),
        LogText(
            text="does not support `output_attentions=True`. Falling back to",
            versions="transformers 4.36 to 4.52",
        ),
        LogText(
            text="does not support `output_attentions=True`",
            strength="supporting",
            versions="transformers 4.36 and newer; since 4.53 the fused kernel stays and no weights come back",
        ),
    ),
)
