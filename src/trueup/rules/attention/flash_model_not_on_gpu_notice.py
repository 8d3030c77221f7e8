"""A notice that the model is still on the CPU, which trainers make untrue a moment later."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.log_facts import mention
from trueup.schema.finding import Remedy
from trueup.schema.log import Log

NOTICE = (
    r"attempting to use Flash Attention [\w.]+ with a model (?:not initialized on GPU|initialized on CPU)"
    r"(?! and with no GPU)"
)


def detect_log(log: Log) -> Sighting | None:
    """Only where nothing else went wrong: the notice is blamed for what follows it, and is never the cause."""
    seen = mention(log, NOTICE)
    if seen is None or any(each.role == "root" and each.kind != "message" for each in log.failures):
        return None
    return Sighting(
        message="The notice about a model that is not on the GPU is harmless: trainers move it afterwards.",
        evidence=(seen.evidence(log),),
        failure=seen.failure,
    )


RULE = Rule(
    id="attention/flash-model-not-on-gpu-notice",
    title="Harmless notice that the model was created on CPU",
    layers=("attention", "trainer"),
    severity="note",
    silent="",
    cause=(
        "transformers looks at the device while loading; trainers and FSDP create the model on CPU or meta and move it."
    ),
    remedies=(
        Remedy(
            id="ignore-device-notice",
            kind="code",
            automatic=False,
            how="nothing: look for the first real exception behind it; device_map='cuda' at loading silences it",
        ),
    ),
    caution="Never the cause of what follows. Only the longer text that adds that no GPU is available is an error.",
    sources=("https://github.com/verl-project/verl/issues/2263",),
    from_log=detect_log,
)
