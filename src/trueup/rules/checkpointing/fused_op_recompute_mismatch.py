"""A fused operator from outside of torch takes another path when it is recomputed."""

from __future__ import annotations

from trueup.rules.checkpoint_errors import COUNTS_DIFFER, checkpoint_error, place_of
from trueup.rules.compilation import compile_asked
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, autocasts, errors, places
from trueup.schema.finding import Confidence, Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

FUSED = (
    r"xformers|swiglu|apex/|liger_kernel|flash_attn/ops|fused_(?:dense|mlp|layer_norm|rms_norm|swiglu|rotary)"
    r"|transformer_engine"
    r"|unsloth/kernels|mamba_ssm|causal_conv1d"
)


def detect(record: Record) -> Sighting | None:
    """Another number of tensors in a job that compiles nothing and casts nothing: an operator took another path."""
    crashed = errors(record, COUNTS_DIFFER)
    compiled = (
        compile_asked(record) or applied(record, "torch.compile", "Module.compile") or record.actual.compile.graphs
    )
    if not crashed or compiled or autocasts(record):
        return None
    return Sighting(
        message="The forward and the recomputation saved different numbers of tensors, and nothing is compiled: an "
        "operator takes another path when it runs again.",
        evidence=(*crashed, *places(applied(record, "checkpoint", "checkpoint_wrapper")[:2], "checkpoint")),
        confidence="likely",
    )


def detect_log(log: Log) -> Sighting | None:
    """Very different counts of tensors and no compiled code; sure where the operator is named."""
    error = checkpoint_error(log)
    if error is None or error.compiled or error.differences:
        return None
    named = error.names(FUSED)
    apart = error.counts is not None and max(error.counts) >= 2 * max(min(error.counts), 1)
    if not named and not apart:
        return None
    confidence: Confidence = "possible"
    if named:
        confidence = "established" if apart else "likely"
    counts = f" ({error.counts[0]} and {error.counts[1]})" if error.counts else ""
    return Sighting(
        message=f"The forward and the recomputation saved very different numbers of tensors{counts}, without "
        "compiled code"
        f"{f'; {place_of(named)} is in the stack' if named else ''}.",
        evidence=(
            *error.evidence(),
            *((Evidence(what="fused operator", value=place_of(named)),) if named else ()),
        ),
        confidence=confidence,
        failure=error.failure,
        specificity=1010 if named else 960,
    )


RULE = Rule(
    id="checkpointing/fused-op-recompute-mismatch",
    title="Fused third-party operator behaves differently under recompute",
    layers=("checkpointing", "attention"),
    severity="error",
    silent="",
    cause=(
        "The operator takes another path when gradients or saved-tensor hooks are in another state (the fused "
        "SwiGLU of "
        "xformers does), so the recomputation saves another set of tensors."
    ),
    remedies=(
        Remedy(
            id="unfused-operator",
            kind="code",
            automatic=False,
            how=(
                "the unfused torch form where blocks are checkpointed: w3(F.silu(w1(x)) * w2(x)) for "
                "xformers.ops.SwiGLU"
            ),
        ),
        Remedy(
            id="operator-outside-checkpoint",
            kind="code",
            automatic=False,
            how="leave the operator outside of the checkpoint, or checkpoint only the attention",
        ),
    ),
    caution="Rule out compiled code, expert routing and ZeRO-3 first.",
    sources=("https://github.com/jzhang38/TinyLlama/issues/152",),
    from_record=detect,
    from_log=detect_log,
)
