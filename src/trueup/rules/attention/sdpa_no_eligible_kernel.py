"""Every SDPA backend that was left on declined the inputs."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import errors
from trueup.schema.finding import Remedy
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
            id="allow-more-kernels",
            kind="code",
            automatic=False,
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
)
