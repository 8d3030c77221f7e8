"""Every SDPA backend that was left on declined the inputs."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.facts import errors
from trueup.rules.log_facts import mention, mentions
from trueup.schema.finding import Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

TEXT = r"No available kernel\.\s+Aborting execution|No viable backend for scaled_dot_product_attention"


def detect(record: Record) -> Sighting | None:
    crashed = errors(record, TEXT)
    if not crashed:
        return None
    return Sighting(
        message="No SDPA kernel that was left enabled accepts these inputs.",
        evidence=(*crashed,),
    )


NO_KERNEL = (
    r"No available kernel\. {0,2}Aborting execution|No viable backend for scaled_dot_product_attention was found"
)
REASONS = (
    r"(?:Flash [Aa]ttention|Memory [Ee]fficient|CuDNN|cuDNN)[\w ]*kernel not used because"
    r"|(?:[Aa]ll|[Bb]oth) fused kernels (?:requires?|do not)|both fused kernels requires?"
    r"|Expected query, key and value to all be of dtype|Flash [Aa]ttention (?:requires|does not|only|kernel)"
    r"|Mem(?:ory)? [Ee]fficient [Aa]ttention (?:requires|does not|only)|[Cc]uDNN (?:SDPA|MHA"
    r"|attention)[^\n]*(?:requires|support)"
    r"|Torch was not compiled with (?:flash|memory efficient) attention"
)
SWITCHED_OFF = r"(?:[Aa]ttention|MHA) has been runtime disabled|not been (?:enabled|requested)"


def detect_log(log: Log) -> Sighting | None:
    """Sure only with the reasons that torch prints as warnings: without them a switch of a library is as likely."""
    failed = mention(log, NO_KERNEL)
    if failed is None:
        return None
    reasons = [each for each in mentions(log, REASONS) if "because" not in each.found.group()]
    viable = failed.found.group().startswith("No viable")
    told = dict.fromkeys(str(each.evidence(log).value).rpartition("Warning: ")[2].rstrip(".") for each in reasons[:2])
    why = f": {'; '.join(told)}" if told else ", and the log does not show why"
    return Sighting(
        message="SDPA has no kernel left that is switched on." if viable else f"No SDPA kernel took these inputs{why}.",
        evidence=(failed.evidence(log), *(each.evidence(log, "reason given") for each in reasons[:4])),
        confidence="established" if reasons or viable else "possible",
        failure=failed.failure,
    )


RULE = Rule(
    id="attention/sdpa-no-eligible-kernel",
    title="No enabled SDPA backend accepts these inputs",
    layers=("attention", "sharding", "environment"),
    severity="error",
    silent="",
    cause=(
        "sdpa_kernel(...) or the enable_*_sdp switches leave kernels of which none supports the shape, dtype, "
        "mask, head size or device."
    ),
    remedies=(
        Remedy(
            id="fused-attention-shapes",
            kind="in-process",
            automatic=True,
            how="inputs and masks of four dimensions, the last contiguous, values padded to the size of the queries",
        ),
        Remedy(
            id="allow-more-kernels",
            kind="in-process",
            automatic=True,
            how="sdpa_kernel([FLASH_ATTENTION, EFFICIENT_ATTENTION, MATH], set_priority=True)",
        ),
        Remedy(
            id="eligible-inputs",
            kind="code",
            automatic=False,
            how=(
                "four dimensions, half precision, is_causal instead of a mask; "
                "torch.backends.cuda.can_use_flash_attention(params, debug=True) tells why"
            ),
        ),
    ),
    caution=(
        "When no code of yours restricts kernels, an import switched them off for the process: sdpa-backend- "
        "disabled-globally."
    ),
    sources=("https://github.com/pytorch/pytorch/issues/117354", "https://github.com/pytorch/torchtitan/issues/2065"),
    from_record=detect,
    log=(
        LogText(text="Flash attention kernel not used because:", strength="supporting", versions="torch 2.1 and newer"),
        LogText(
            text="All fused kernels requires query, key and value to be 4 dimensional",
            strength="supporting",
            versions="torch 2.1 and newer",
        ),
        LogText(
            text="both fused kernels require query, key and value to have the same num_heads",
            strength="supporting",
            versions="torch 2.1 and newer",
        ),
    ),
    from_log=detect_log,
)
