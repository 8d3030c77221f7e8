"""Upstream publishes no wheel of an extension for the installed torch."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.log_facts import mention
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

GUESSED = r"Guessing wheel URL:? +(?P<url>\S+/(?P<wheel>[\w.+%-]+\.whl))"
NOT_FOUND = r"Precompiled wheel not found"


def detect_log(log: Log) -> Sighting | None:
    """The package's own setup.py looked for a wheel and found none."""
    guessed, missed = mention(log, GUESSED), mention(log, NOT_FOUND)
    if missed is None:
        return None
    wheel = guessed.found["wheel"].replace("%2B", "+") if guessed else None
    return Sighting(
        message=f"No ready wheel {wheel or 'for this torch'} was found; a build from source began.",
        evidence=(missed.evidence(log), *((Evidence(what="wheel looked for", value=wheel),) if wheel else ())),
        confidence="likely",
        severity="warning",
        failure=missed.failure,
    )


RULE = Rule(
    id="environment/no-prebuilt-wheel-for-torch",
    title="No extension wheel exists for the installed torch",
    layers=("environment", "attention", "trainer"),
    severity="error",
    silent="",
    cause=(
        "Wheels of flash-attn are published for some combinations of Python, torch, CUDA and C++ ABI, and come later "
        "than "
        "torch. Where none fits, setup.py compiles for a long time or fails."
    ),
    remedies=(
        Remedy(
            id="show-fitting-wheel",
            kind="install",
            automatic=False,
            how="trueup doctor --for flash-attn, which names the wheel that fits or the nearest torch that has one",
        ),
        Remedy(
            id="keep-built-wheel",
            kind="install",
            automatic=False,
            how="MAX_JOBS=4 pip wheel --no-build-isolation --no-deps flash-attn -w wheels, once, and install from "
            "there",
        ),
        Remedy(
            id="attention-without-package",
            kind="config-edit",
            automatic=False,
            how='attn_implementation="sdpa": torch\'s own flash kernel needs no package',
        ),
    ),
    caution="A wheel that exists for the other C++ ABI, or a download that failed, is another matter.",
    log=(
        LogText(text="Precompiled wheel not found. Building from source", versions="flash-attn 2.5 or newer"),
        LogText(
            text="is not a supported wheel on this platform",
            strength="supporting",
            versions="pip: the wheel is for another Python or system",
        ),
        LogText(
            text="No matching distribution found for flash-attn",
            strength="supporting",
            versions="pip, with --only-binary or an index without it",
        ),
        LogText(
            text="No matching distribution found for flash-attn-<number>",
            strength="supporting",
            versions="pip",
        ),
    ),
    from_log=detect_log,
)
