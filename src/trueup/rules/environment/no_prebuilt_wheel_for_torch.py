"""Upstream publishes no wheel of an extension for the installed torch."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import asks_for_flash, gpus_with, install, said, torch_cuda, torch_version
from trueup.rules.log_facts import mention
from trueup.rules.requirements import unmet
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

GUESSED = r"Guessing wheel URL:? +(?P<url>\S+/(?P<wheel>[\w.+%-]+\.whl))"
NOT_FOUND = r"Precompiled wheel not found"
PACKAGES = r"(?:flash[-_]attn|xformers|vllm|transformer[-_]engine|causal[-_]conv1d|mamba[-_]ssm|bitsandbytes|apex)"
NONE_FITS = rf"(?P<package>{PACKAGES})\S* (?:\([^)]*\) )?has no (?:usable )?wheels"
BUILT = (
    rf"(?:Failed building wheel|Could not build wheels|Failed to build|Building wheel) (?:for )?(?P<package>{PACKAGES})"
)


def detect_log(log: Log) -> Sighting | None:
    """The package's own setup.py looked for a wheel and found none."""
    guessed, missed = mention(log, GUESSED), mention(log, NOT_FOUND)
    if missed is None:
        return without_wheel(log)
    wheel = guessed.found["wheel"].replace("%2B", "+") if guessed else None
    return Sighting(
        message=f"No ready wheel {wheel or 'for this torch'} was found; a build from source began.",
        evidence=(missed.evidence(log), *((Evidence(what="wheel looked for", value=wheel),) if wheel else ())),
        confidence="likely",
        severity="warning",
        failure=missed.failure,
    )


WITH_WHEELS = ((2, 6), (2, 10))
"""First and last torch with official flash-attn 2.8.3 wheels, read in its publish matrix in 2026-08."""


def detect_in_environment(environment: Environment) -> Sighting | None:
    torch = torch_version(environment)
    if torch is None or torch_cuda(environment) is None or "flash-attn" in environment.packages:
        return None
    asked = asks_for_flash(environment)
    required = [each for each in unmet(environment) if each.name == "flash-attn"]
    first, last = WITH_WHEELS
    if (asked is None and not required) or first <= (torch.major, torch.minor) <= last:
        return None
    return Sighting(
        message=(
            "flash-attn is asked for and not installed, and no official wheel exists for torch "
            f"{torch.major}.{torch.minor}: they end at {last[0]}.{last[1]}."
        ),
        evidence=(
            *((said(asked, "attention asked for"),) if asked else ()),
            *(Evidence(what=f"{each.package.name} requires", value=each.requirement) for each in required),
            *(Evidence(what="GPU", value=gpu.name) for gpu in gpus_with(environment, (8, 0))[:1]),
        ),
        confidence="likely",
        severity="warning",
        remedies=(
            Remedy(id="use-sdpa", kind="config-edit", automatic=False, how='attn_implementation="sdpa"'),
            install(environment, "flash-attn", options="--no-build-isolation", id="build-flash-attn"),
        ),
    )


def without_wheel(log: Log) -> Sighting | None:
    """The resolver says that no wheel fits; a build that was begun says no more than that none was taken."""
    none_fits = mention(log, NONE_FITS)
    seen = none_fits or mention(log, BUILT)
    if seen is None:
        return None
    told = "has no wheel that fits" if none_fits else "is built from source"
    return Sighting(
        message=f"{seen.found['package']} {told}.",
        evidence=(seen.evidence(log),),
        confidence="likely" if none_fits else "possible",
        failure=seen.failure,
        specificity=1000 if none_fits else 5,
    )


RULE = Rule(
    id="environment/no-prebuilt-wheel-for-torch",
    title="No extension wheel exists for the installed torch",
    layers=("environment", "attention", "trainer"),
    severity="error",
    silent="",
    cause=(
        "Wheels of flash-attn are published for some combinations of Python, torch, CUDA and C++ ABI, and come later "
        "than torch. Where none fits, setup.py compiles for a long time or fails."
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
    from_environment=detect_in_environment,
)
