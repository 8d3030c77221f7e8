"""The layer class to wrap is not in the model."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import asks_for_fsdp, configured, said
from trueup.rules.facts import errors
from trueup.rules.log_facts import mention
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

TEXT = r"Could not find the transformer layer class"
CLASS = r"Could not find (?:the|a) transformer layer class (?:called )?(?P<name>(?!to\b)\w+)(?: to wrap)? in the model"


def detect(record: Record) -> Sighting | None:
    crashed = errors(record, TEXT)
    if not crashed:
        return None
    return Sighting(
        message="FSDP was told to wrap a layer class that the model does not have.",
        evidence=(*crashed,),
    )


def detect_log(log: Log) -> Sighting | None:
    seen = mention(log, CLASS)
    if seen is None:
        return None
    return Sighting(
        message=f"The model has no module of class {seen.found['name']}, which the FSDP configuration wraps.",
        evidence=(seen.evidence(log), Evidence(what="class in the configuration", value=seen.found["name"])),
        failure=seen.failure,
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    """A name that no source file defines. A model from elsewhere may: without a near name it is a possibility only."""
    sharded, policy = asks_for_fsdp(environment), configured(environment, "fsdp_auto_wrap_policy")
    if sharded is None or (policy is not None and "TRANSFORMER" not in policy.value.upper()):
        return None
    classes = environment.layer_classes
    padded = [name for name in classes if name != name.strip()]
    missing = [name for name, facts in classes.items() if facts.get("defined_in") is None]
    if padded:
        return Sighting(
            message=f"accelerate looks for a class called {padded[0]!r}, with the blank: the list is parted at commas.",
            evidence=(*_classes(environment), said(sharded)),
            confidence="likely",
        )
    if not missing:
        return None
    alike = [str(name) for name in classes[missing[0]].get("alike") or ()]
    is_misspelled = any(_plain(name) == _plain(missing[0]) for name in alike)
    hint = f"; there is {', '.join(alike)}" if alike else ""
    return Sighting(
        message=f"FSDP wraps the class {missing[0]}, which no installed model and no file of the job defines{hint}.",
        evidence=(*_classes(environment), said(sharded)),
        confidence="likely" if is_misspelled else "possible",
        severity=None if is_misspelled else "note",
    )


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _classes(environment: Environment) -> tuple[Evidence, ...]:
    """What was asked for, and where it was looked up."""
    setting = configured(environment, "fsdp_transformer_layer_cls_to_wrap") or configured(
        environment, "fsdp_transformer_cls_to_wrap"
    )
    return (
        *((said(setting),) if setting is not None else ()),
        *(
            Evidence(what=f"definition of {name.strip()}", value=facts.get("defined_in") or "none")
            for name, facts in environment.layer_classes.items()
        ),
    )


RULE = Rule(
    id="sharding/wrap-layer-class-not-found",
    title="Configured FSDP layer class does not exist in the model",
    layers=("sharding", "trainer"),
    severity="error",
    silent="",
    cause=(
        "The class name in the configuration was copied from another model, was renamed, or was split wrongly out of "
        "a list."
    ),
    remedies=(
        Remedy(
            id="existing-layer-class",
            kind="in-process",
            automatic=True,
            how=(
                "fsdp_transformer_layer_cls_to_wrap: a class from {type(m).__name__ for m in model.modules()}, or "
                "empty for the model's own _no_split_modules"
            ),
        ),
    ),
    caution=("accelerate test runs a toy model of its own and always fails with a class from your configuration."),
    sources=(
        "https://github.com/hiyouga/LlamaFactory/issues/8279",
        "https://github.com/huggingface/accelerate/issues/2947",
    ),
    from_record=detect,
    log=(
        LogText(
            text="Could not find the transformer layer class",
            versions="accelerate, transformers and peft, all releases",
        ),
        LogText(text="Could not find a transformer layer class called", versions="accelerate 1.10 or newer"),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
