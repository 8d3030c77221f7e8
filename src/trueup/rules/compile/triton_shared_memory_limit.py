"""A Triton kernel asks for more shared memory than a block of this GPU has."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.log_facts import mention
from trueup.schema.finding import Confidence, Remedy
from trueup.schema.log import Log

RESOURCE = r"out of resources?: (?P<what>shared memory|triton_\w+|(?!tensor memory|threads|block)[\w ]+)"
NUMBERS = r"Required: (?P<required>\d+)[,\s]+Hardware limit: ?(?P<limit>\d+)"
CLASS = r"\bOutOfResources\b|No valid triton configs\. (?:OutOfMemoryError|OutOfResources)"
FLEX = r"flex_attention|flex_decoding"


def detect_log(log: Log) -> Sighting | None:
    """Two numbers of bytes, the first larger than the second; it is no lack of device memory."""
    seen = mention(log, RESOURCE) or mention(log, NUMBERS) or mention(log, CLASS)
    if seen is None:
        return None
    numbers = mention(log, NUMBERS)
    if numbers is not None and int(numbers.found["required"]) <= int(numbers.found["limit"]):
        return None
    confidence: Confidence = "established" if numbers or seen.found.group().startswith("out of") else "likely"
    kernel = "A Triton kernel of FlexAttention" if mention(log, FLEX) else "A Triton kernel"
    need = "more shared memory than the GPU has"
    if numbers is not None:
        need = f"{numbers.found['required']} bytes of shared memory where the GPU has {numbers.found['limit']}"
    return Sighting(
        message=f"{kernel} needs {need}.",
        evidence=tuple(dict.fromkeys((seen.evidence(log), *((numbers.evidence(log),) if numbers else ())))),
        confidence=confidence,
        failure=seen.failure,
    )


RULE = Rule(
    id="compile/triton-shared-memory-limit",
    title="Triton kernel needs more shared memory than the GPU has",
    layers=("compile", "attention", "environment", "precision"),
    severity="error",
    silent="",
    cause=(
        "Tile sizes are tuned for data-centre cards; sm 8.6, 8.9 and 12.0 have about 100 KB a block, and float32 "
        "or large "
        "heads double the tile."
    ),
    remedies=(
        Remedy(
            id="smaller-flex-blocks",
            kind="code",
            automatic=False,
            how='flex_attention(..., kernel_options={"BLOCK_M": 64, "BLOCK_N": 64, "num_stages": 1}), or smaller still',
        ),
        Remedy(
            id="half-precision-attention",
            kind="in-process",
            automatic=False,
            how="bf16 or fp16 inputs, and a look at head_dim: the tile grows with both",
        ),
        Remedy(
            id="request-sdpa",
            kind="in-process",
            automatic=True,
            how='attn_implementation="sdpa" instead of flex_attention',
        ),
    ),
    caution="Not a lack of device memory, although the class is called OutOfMemoryError.",
    sources=(
        "https://github.com/pytorch/pytorch/issues/180278",
        "https://github.com/meta-pytorch/attention-gym/issues/14",
    ),
    log=(
        LogText(
            text="No valid triton configs.",
            strength="supporting",
            versions="torch 2.6 and newer; a ptxas that is too old prints it too",
            not_with=("PTXASError", "Internal Triton PTX codegen error"),
        ),
        LogText(text="Hardware limit: <bytes>", strength="supporting", versions="any Triton"),
    ),
    from_log=detect_log,
)
