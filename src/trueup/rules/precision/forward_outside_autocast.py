"""A forward ran outside of autocast on a model whose parameters have different dtypes."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, errors, percent, places, share
from trueup.schema.finding import Evidence, Remedy
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
    contexts = applied(record, "autocast")
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
            kind="code",
            automatic=False,
            how="torch.autocast with the dtype of training around the extra call, or one dtype for all parameters",
        ),
    ),
    caution=(
        "A failure inside of the training step means that autocast is off altogether: look at bf16 or mixed_precision."
    ),
    sources=("https://github.com/huggingface/peft/issues/1515",),
    from_record=detect,
)
