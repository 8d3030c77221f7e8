"""FSDP1 refuses a unit that holds frozen and trainable parameters."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import asks_for_fsdp, configured, installed_as, said
from trueup.rules.facts import applied, errors, is_on, places
from trueup.schema.environment import Environment
from trueup.schema.finding import Remedy
from trueup.schema.record import Record

TEXT = (
    r"Must flatten tensors with uniform `?requires_grad`?|`FlatParameter` requires uniform `requires_grad`"
    r"|FSDP does not support wrapping such modules when use_orig_params=False"
)
"""The third is the check before the wrapping, made for policies that are objects (ModuleWrapPolicy, CustomPolicy)."""


def detect(record: Record) -> Sighting | None:
    crashed = errors(record, TEXT)
    if not crashed:
        return None
    return Sighting(
        message="FSDP1 refused to flatten a unit that holds frozen and trainable parameters.",
        evidence=(*crashed, *places(applied(record, "FullyShardedDataParallel", "get_peft_model")[:2])),
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    sharded, originals = asks_for_fsdp(environment), configured(environment, "fsdp_use_orig_params")
    version, peft = configured(environment, "fsdp_version"), environment.packages.get("peft")
    if peft is None or sharded is None or originals is None or is_on(originals.value):
        return None
    if version is not None and version.value != "1":
        return None
    return Sighting(
        message="FSDP1 with use_orig_params off cannot mix frozen weights and adapters, and peft is installed.",
        evidence=(said(originals), said(sharded), installed_as(peft)),
        confidence="possible",
        severity="note",
    )


RULE = Rule(
    id="sharding/fsdp1-nonuniform-requires-grad",
    title="FSDP1 unit mixes frozen and trainable parameters",
    layers=("adapter", "sharding", "trainer"),
    severity="error",
    silent="",
    cause=(
        "Without use_orig_params FSDP1 merges all parameters of a unit into one, so frozen base weights and adapters "
        "must lie in different units; the wrap policy did not separate them."
    ),
    remedies=(
        Remedy(
            id="fsdp-use-orig-params",
            kind="env-var",
            automatic=True,
            how="FSDP_USE_ORIG_PARAMS=true (accelerate), use_orig_params=True in code",
        ),
        Remedy(
            id="peft-wrap-policy",
            kind="code",
            automatic=False,
            how="peft.utils.other.fsdp_auto_wrap_policy(model) as auto_wrap_policy, or FSDP2",
        ),
    ),
    caution=(
        "With use_orig_params the gradients of a whole unit are kept in memory, those of frozen weights too; units of "
        "their own save more."
    ),
    sources=(
        "https://github.com/huggingface/peft/issues/1702",
        "https://github.com/huggingface/transformers/issues/27542",
    ),
    from_record=detect,
    log=(
        LogText(text="Must flatten tensors with uniform `requires_grad`", versions="torch 2.0 or newer"),
        LogText(text="requires uniform `requires_grad`", versions="torch 1.12 to 2.0"),
        LogText(
            text="FSDP does not support wrapping such modules when use_orig_params=False",
            versions="torch 2.1 or newer, with a policy object such as ModuleWrapPolicy",
        ),
    ),
    from_environment=detect_in_environment,
)
