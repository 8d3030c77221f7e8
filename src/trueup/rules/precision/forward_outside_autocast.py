"""A forward ran outside of autocast on a model whose parameters have different dtypes."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.facts import autocasts, errors, percent, places, share
from trueup.rules.log_facts import mention
from trueup.rules.printed_dtypes import HALVES, PRINTED, dtype, mixed_precision
from trueup.schema.finding import Confidence, Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

MISMATCH = (
    r"mat1 and mat2 must have the same dtype|expected m1 and m2 to have the same dtype|"
    r"expected mat1 and mat2 to have the same dtype|expected scalar type (?:Float|Half|BFloat16) but found"
)


def detect(record: Record) -> Sighting | None:
    crashed = errors(record, MISMATCH)
    parameters = record.actual.precision.parameters
    single, half = share(parameters, "float32"), share(parameters, "bfloat16", "float16")
    if not crashed or not (single and half):
        return None
    contexts = autocasts(record)
    return Sighting(
        message=f"A layer met two dtypes outside of autocast: {percent(single)} of the parameters are float32, "
        f"{percent(half)} half precision.",
        evidence=(
            *crashed,
            Evidence(what="share of parameters in float32", value=single),
            Evidence(what="share of parameters in half precision", value=half),
            *places(contexts[:1]),
        ),
        # Inside the training step itself the same text means that autocast is off altogether.
        confidence="established" if contexts and record.steps.count else "likely",
    )


PRODUCT = (
    rf"(?:mat1 and mat2|m1 and m2|self and mat2) (?:to have|must have) the same dtype,? but got:? *(?P<one>{PRINTED}) "
    rf"(?:!=|and) (?P<other>{PRINTED})"
    rf"|Input type \((?P<input>{PRINTED})\) and (?:weight|bias) type \((?P<weight>{PRINTED})\) should be the same"
)
CUT = r"(?m)(?:mat1 and mat2|m1 and m2|self and mat2) (?:to have|must have) the same dtype(?:,? but got)?\W*$"


def detect_log(log: Log) -> Sighting | None:
    """float32 against a half type, in a linear or convolution; any other pair is a fault of the data or the code."""
    seen = mention(log, PRODUCT)
    if seen is None:
        return _cut_short(log)
    dtypes = [dtype(printed) for printed in seen.found.groups() if printed]
    if set(dtypes) == set(HALVES):
        confidence: Confidence = "possible"
    elif mixed_precision(dtypes):
        confidence = "established"
    else:
        return None
    return Sighting(
        message=f"A layer multiplied {dtypes[0]} by {dtypes[1]}: its forward ran outside of autocast, and "
        "parameters of "
        "both dtypes are in the model.",
        evidence=(seen.evidence(log),),
        confidence=confidence,
        failure=seen.failure,
    )


def _cut_short(log: Log) -> Sighting | None:
    """The sentence without its dtypes."""
    seen = mention(log, CUT)
    if seen is None:
        return None
    return Sighting(
        message="A layer multiplied tensors of different dtypes; the log does not show which.",
        evidence=(seen.evidence(log),),
        confidence="possible",
        failure=seen.failure,
    )


RULE = Rule(
    id="precision/forward-outside-autocast",
    title="Forward runs outside autocast with mixed parameter dtypes",
    layers=("precision", "adapter", "trainer"),
    severity="error",
    silent="",
    cause=(
        "Norms, embeddings or adapters are float32 beside half-precision weights, and the trainer enters "
        "autocast around its own forward only; generate(), a callback or an evaluation does not."
    ),
    remedies=(
        Remedy(
            id="autocast-around-call",
            kind="in-process",
            automatic=True,
            how="torch.autocast with the dtype of training around the extra call, or one dtype for all parameters",
        ),
    ),
    caution=(
        "A failure inside of the training step means that autocast is off altogether: look at bf16 or mixed_precision."
    ),
    sources=("https://github.com/huggingface/peft/issues/1515",),
    from_record=detect,
    log=(
        LogText(
            text="expected scalar type Half but found Float",
            strength="supporting",
            versions="any torch, matrix products and others",
        ),
        LogText(
            text="expected scalar type BFloat16 but found Float",
            strength="supporting",
            versions="any torch, matrix products and others",
        ),
        LogText(text="expected scalar type Float but found Half", strength="supporting", versions="any torch"),
        LogText(text="expected scalar type Float but found BFloat16", strength="supporting", versions="any torch"),
    ),
    from_log=detect_log,
)
