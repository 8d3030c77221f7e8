"""Kernels of SDPA are switched off for the whole process."""

from __future__ import annotations

import re

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import asked, errors, listed, switched
from trueup.rules.log_facts import mention, mentions
from trueup.rules.log_parts import frames, place
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    attention = record.actual.attention
    off = [name for name in ("flash", "mem_efficient") if attention.toggles.get(name) is False]
    if not off or switched(record, "attention") or asked(record, "attention", "backends"):
        return None
    crashed = errors(record, r"No available kernel|Invalid backend")
    unfused = attention.fused_fraction is not None and attention.fused_fraction < 0.95
    ran = listed(kernel.name for kernel in attention.kernels)
    return Sighting(
        message=f"SDPA's {listed(off)} kernels are switched off for the whole process{f'; {ran} ran' if ran else ''}.",
        evidence=(
            *(Evidence(what=f"global SDPA switch {name}", value=False) for name in off),
            Evidence(what="share of attention calls that ran a fused kernel", value=attention.fused_fraction),
            *crashed,
        ),
        confidence="established" if crashed or unfused else "likely",
        severity="error" if crashed else "warning" if unfused else "note",
    )


NO_KERNEL = (
    r"No available kernel\. {0,2}Aborting execution|No viable backend for scaled_dot_product_attention was found"
)
DISABLED = r"(?P<kernel>Flash|Mem(?:ory)? [Ee]fficient|[Cc]uDNN)[\w ]*[Aa]ttention has been runtime disabled"
SWITCH = re.compile(r"enable_(?:flash|mem_efficient|math|cudnn)_sdp\(\s*(?:enabled\s*=\s*)?False")
RESTRICTED = re.compile(r"\bsdpa?_kernel\(")


def detect_log(log: Log) -> Sighting | None:
    """The error, and either a line that switches kernels off or warnings that say they are off; else only possible."""
    failed = mention(log, NO_KERNEL)
    if failed is None:
        return None
    stack = list(frames(failed.failure))
    if any(frame.code and RESTRICTED.search(frame.code) for frame in stack):
        return None  # the calling code restricts the kernels itself
    switched = next((frame for frame in stack if frame.code and SWITCH.search(frame.code)), None)
    off = {str(each.found["kernel"]).split()[0].lower()[:3]: each for each in mentions(log, DISABLED)}
    evidence = [failed.evidence(log), *(each.evidence(log, "switched off") for each in off.values())]
    if switched is not None:
        evidence.append(Evidence(what="line that switches it off", value=switched.code, at=place(log, failed.failure)))
    return Sighting(
        message="SDPA has no kernel left"
        + (f": {len(off)} are switched off for the whole process." if len(off) > 1 else ", perhaps since an import.")
        if switched is None
        else f"SDPA has no kernel left: {switched.code} switched them off for the whole process.",
        evidence=tuple(evidence),
        confidence="established" if switched is not None else "likely" if len(off) > 1 else "possible",
        failure=failed.failure,
        # Behind sdpa-no-eligible-kernel, which the same text names, unless there is a sign of the switch.
        specificity=1100 if switched is not None or len(off) > 1 else 900,
    )


RULE = Rule(
    id="attention/sdpa-backend-disabled-globally",
    title="An imported package switched SDPA backends off process-wide",
    layers=("attention",),
    severity="warning",
    silent="The calling code restricts nothing; an import did.",
    cause=(
        "torch.backends.cuda.enable_flash_sdp and its like are global; a module that calls them when it is "
        "imported changes every model of the process."
    ),
    remedies=(
        Remedy(
            id="restore-sdpa-switches",
            kind="in-process",
            automatic=True,
            how=(
                "torch.backends.cuda.enable_flash_sdp(True) (and mem_efficient) after the imports, or "
                "sdpa_kernel([...])"
            ),
        ),
    ),
    caution="Compare the switches before and after the imports before the inputs are blamed.",
    sources=("https://github.com/seal-rg/recurrent-pretraining/issues/30",),
    explains=("attention/kernel-math-fallback", "attention/explicit-mask-deselects-flash"),
    from_record=detect,
    from_log=detect_log,
)
