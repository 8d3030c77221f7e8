"""Generated code uses a dtype that the instructions of this GPU do not have."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import asks_for_compile, configured, gpu_evidence, gpus_with, said
from trueup.rules.log_facts import mention
from trueup.schema.environment import Environment
from trueup.schema.finding import Remedy
from trueup.schema.log import Log

FEATURE = r"Feature (?P<feature>[^\n]{1,80}?) requires \.target (?P<target>sm_\w+) or higher"
NARROW = ("bf16", "e4m3", "e5m2", "fp8", "f8", "e2m1", "f16x2")
TYPE = r"type (?P<type>fp8\w+|bf16|bfloat16) not supported in this architecture"


def detect_log(log: Log) -> Sighting | None:
    """ptxas names the feature and the architecture that it needs; Triton names the type."""
    for seen in (mention(log, FEATURE), mention(log, TYPE)):
        if seen is None:
            continue
        told = seen.found.groupdict()
        if told.get("feature") and not any(name in told["feature"] for name in NARROW):
            continue
        what = told.get("type") or told["feature"]
        needs = f", which needs {told['target']}" if told.get("target") else ""
        return Sighting(
            message=f"Compiled code uses {what}{needs}; this GPU does not have it.",
            evidence=(seen.evidence(log),),
            failure=seen.failure,
        )
    return None


def detect_in_environment(environment: Environment) -> Sighting | None:
    old, compiled = gpus_with(environment, (0, 0), (8, 0)), asks_for_compile(environment)
    precision = configured(environment, "mixed_precision")
    if not old or compiled is None or precision is None or precision.value != "bf16":
        return None
    return Sighting(
        message=f"bf16 and torch.compile are asked for, and {old[0].name} has no bf16 instructions.",
        evidence=(said(precision), said(compiled), *gpu_evidence(old)),
        confidence="likely",
        severity="warning",
    )


RULE = Rule(
    id="compile/triton-dtype-unsupported",
    title="Generated Triton kernel uses a dtype the GPU lacks",
    layers=("compile", "precision", "environment", "trainer"),
    severity="error",
    silent="Torch 2.4 and newer skip bf16 regions with one warning, and they run eager.",
    cause="Eager kernels emulate the dtype; Inductor emits its instructions without asking the architecture.",
    remedies=(
        Remedy(
            id="dtype-of-the-gpu",
            kind="config-edit",
            automatic=False,
            how="fp16 or float32 below sm 8.0, no fp8 casts in compiled code below sm 8.9, or no torch.compile there",
        ),
        Remedy(id="upgrade-torch", kind="install", automatic=False, how="torch >= 2.4 (bf16), 2.13 (fp8 inputs)"),
    ),
    caution="On torch 2.4 and newer the bf16 case is silent but for the warning: the region runs eager.",
    sources=(
        "https://github.com/Lightning-AI/pytorch-lightning/issues/18070",
        "https://github.com/pytorch/pytorch/issues/184081",
        "https://github.com/pytorch/pytorch/issues/97016",
    ),
    log=(
        LogText(text="atomic_add does not support bf16", versions="torch 2.0"),
        LogText(text="does not support bfloat16 compilation natively, skipping", versions="torch 2.4 and newer"),
        LogText(text="fp8e4nv data type is not supported on CUDA arch < 89", versions="triton 2.1 to 3.0"),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
