"""A copy of flash-attention inside of another package takes a new GPU for an old one."""

from __future__ import annotations

import re

from trueup.rules.definition import Rule, Sighting
from trueup.rules.environment_facts import gpu_evidence, install, supports
from trueup.rules.extension_facts import BUNDLING
from trueup.rules.log_facts import mention, passes
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

REFUSED = r"only supports? (?:Ampere|Turing|Hopper) GPUs or newer|Expected is_sm\w+ \|\| is_sm\w+"
COPY = (
    r"(?P<owner>[\w.-]+)[/\\]third_party[/\\]flash.attention|third_party[/\\]flash.attention"
    r"|flash_attn[/\\]flash_api\.cpp"
    r"|(?P<native>xformers|vllm_flash_attn|vllm-flash-attn|transformer_engine)[/\\._-]"
)
NEW_CAPABILITY = r"(?<!\w)(?:capability|sm|SM|arch)[ _=:(]{0,3}(?P<major>[89]|1[0-9])(?:[., ]+|(?=\d\b))(?P<minor>\d)"
NEW_GPU = r"\b(?:RTX (?:[345]0[5-9]0|PRO|A\d{4})|[AHBL](?:40S?|100|200|300)|GB200|L4|GB10|Blackwell|Hopper)\b"


def detect_log(log: Log) -> Sighting | None:
    refused = mention(log, REFUSED)
    if refused is None:
        return None
    copy = mention(log, COPY)
    owner = None
    if copy is not None:
        owner = copy.found["owner"] or copy.found["native"]
    frame = passes(refused.failure, "xformers/", "vllm/", "transformer_engine/")
    if owner is None and frame is not None and copy is None:
        owner = re.split(r"[/\\]", re.split(r"site-packages[/\\]", frame.file)[-1])[0]
    gpu = mention(log, NEW_CAPABILITY) or mention(log, NEW_GPU)
    third_party = copy is not None and ("third_party" in copy.found.group() or owner is not None)
    if not third_party and owner is None and gpu is None:
        return None
    evidence = [refused.evidence(log)]
    if copy is not None and third_party:
        evidence.append(copy.evidence(log, "raised in the source file of a copy"))
    elif frame is not None and owner is not None:
        evidence.append(Evidence(what="raised through", value=frame.file, at=f"{frame.file}:{frame.line}"))
    if gpu is not None:
        evidence.append(gpu.evidence(log, "GPU"))
    named = f"the copy of flash-attention in {owner}" if owner else "a copy of flash-attention"
    return Sighting(
        message=f"{named[0].upper()}{named[1:]} refused the GPU as older than it is.",
        evidence=tuple(evidence),
        confidence="established" if third_party else "likely",
        failure=refused.failure,
        remedies=_remedies(owner) if owner else (),
    )


def _remedies(owner: str) -> tuple[Remedy, ...]:
    return (
        Remedy(id="upgrade-bundling-package", kind="install", automatic=False, how=f"pip install -U {owner}"),
        *RULE.remedies[1:],
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    for gpu in environment.gpus:
        for extension in environment.extensions:
            if extension.package in BUNDLING and supports(extension, gpu) is False:
                number = gpu.compute_capability
                return Sighting(
                    message=f"{extension.file} holds no code for {gpu.name}, compute capability {number}.",
                    evidence=(
                        Evidence(
                            what=f"architectures in {extension.package}",
                            value=" ".join(extension.gpu_architectures),
                            at=extension.file,
                        ),
                        *gpu_evidence([gpu]),
                    ),
                    confidence="likely",
                    remedies=(
                        install(
                            environment, extension.package or "", options="--upgrade", id="upgrade-bundled-kernels"
                        ),
                    ),
                )
    return None


RULE = Rule(
    id="attention/bundled-flash-rejects-newer-gpu",
    title="Old bundled flash-attention copy rejects a new GPU",
    layers=("attention", "environment"),
    severity="error",
    silent="",
    cause=(
        "xformers and others carry their own flash-attention binary, whose test of the architecture knows only the "
        "cards "
        "of its time, and that copy is the one that was called."
    ),
    remedies=(
        Remedy(
            id="upgrade-bundling-package",
            kind="install",
            automatic=False,
            how=(
                "pip install -U xformers (or the package that the path in the exception names), or build it for "
                "this GPU"
            ),
        ),
        Remedy(
            id="request-sdpa",
            kind="in-process",
            automatic=True,
            how='attn_implementation="sdpa", or switch the package\'s flash operator off',
        ),
    ),
    caution="The sentence alone says nothing: the path printed with it, or the GPU, decides; below sm 8.0 it is right.",
    sources=("https://github.com/Dao-AILab/flash-attention/issues/1540",),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
