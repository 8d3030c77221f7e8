"""The GPU is older than the instructions of the flash kernel."""

from __future__ import annotations

import re

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import asks_for_flash, gpu_evidence, gpus_with, installed_as, said, version_of
from trueup.rules.log_facts import mention
from trueup.schema.environment import Environment
from trueup.schema.finding import Remedy
from trueup.schema.log import Log

OUT_OF_RANGE = r"Flash attention only supports gpu architectures in the range[^\n]*sm ?(?P<major>\d+)\.(?P<minor>\d)"
BUNDLED = (
    r"third_party\flash-attention",
    "third_party/flash-attention",
    r"xformers\third_party",
    "xformers/third_party",
)


def detect_log(log: Log) -> Sighting | None:
    """The reason that SDPA gives when it passes its flash kernel over; without an error it went on with another."""
    seen = mention(log, OUT_OF_RANGE)
    if seen is None or int(seen.found["major"]) >= 8:
        return None
    if any(re.search(r"No available kernel", each.message) for each in log.failures):
        return None  # what failed is the restriction to flash
    return Sighting(
        message=f"The GPU is sm {seen.found['major']}.{seen.found['minor']}, and SDPA's flash kernel needs sm 8.0.",
        evidence=(seen.evidence(log),),
        confidence="likely",
        failure=seen.failure,
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    if not environment.gpus:
        return None
    from trueup.attention.knowledge.flash_attn import OLDEST_GPU  # here: most environments never ask

    old = gpus_with(environment, (0, 0), OLDEST_GPU)
    asked, installed = asks_for_flash(environment), version_of(environment, "flash-attn")
    if not old or (asked is None and (installed is None or installed.major < 2)):
        return None
    return Sighting(
        message=f"{old[0].name} has compute capability {old[0].compute_capability}; FlashAttention 2 needs "
        f"{'.'.join(map(str, OLDEST_GPU))}.",
        evidence=(
            *gpu_evidence(old),
            *((installed_as(environment.packages["flash-attn"]),) if installed else ()),
            *((said(asked, "attention asked for"),) if asked else ()),
        ),
        remedies=(Remedy(id="use-sdpa", kind="config-edit", automatic=False, how='attn_implementation="sdpa"'),),
    )


RULE = Rule(
    id="attention/flash-gpu-architecture-too-old",
    title="GPU below Ampere cannot run FlashAttention 2",
    layers=("attention", "environment"),
    severity="error",
    silent="",
    cause=(
        "The kernels use instructions that Turing and Volta (T4, V100, RTX 20) do not have, so none is built for them."
    ),
    remedies=(
        Remedy(
            id="request-sdpa",
            kind="in-process",
            automatic=True,
            how='attn_implementation="sdpa" (its memory-efficient kernel serves these cards), and fp16 instead of bf16',
        ),
        Remedy(
            id="install-flash-attn-1",
            kind="install",
            automatic=False,
            how="pip install 'flash-attn<2' --no-build-isolation (Turing only, code written for its interface)",
        ),
    ),
    caution=(
        "On Ampere or newer the same sentence comes from an old copy in another package: "
        "bundled-flash-rejects-newer-gpu."
    ),
    sources=("https://github.com/Dao-AILab/flash-attention/issues/762",),
    log=(
        LogText(text="FlashAttention only supports Ampere GPUs or newer", versions="flash-attn 2", not_with=BUNDLED),
        LogText(
            text="FlashAttention only supports Turing GPUs or newer", versions="copies of flash-attn", not_with=BUNDLED
        ),
        LogText(
            text="bfloat16 is only supported on Ampere GPUs or newer", versions="flash-attn 1 and 2", not_with=BUNDLED
        ),
        LogText(
            text="Expected is_sm90 || is_sm8x || is_sm75 to be true, but got false",
            versions="flash-attn 1",
            not_with=BUNDLED,
        ),
        LogText(
            text="Expected is_sm8x || is_sm75 to be true, but got false", versions="flash-attn 0", not_with=BUNDLED
        ),
        LogText(
            text="FlashAttention only supports Hopper GPUs or newer",
            strength="supporting",
            versions="flash-attn 3",
            not_with=BUNDLED,
        ),
        LogText(
            text="requires device with capability > (8, 0) but your GPU has capability <capability> (too old)",
            strength="supporting",
            versions="xformers 0.0.20 and newer",
        ),
        LogText(
            text="requires compute capability >= <major>, but found",
            strength="supporting",
            versions="transformers 5, flash-attn 3 and 4",
        ),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
