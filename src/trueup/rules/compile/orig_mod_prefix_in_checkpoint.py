"""Weights were loaded under names that carry the wrapper's prefix."""

from __future__ import annotations

import re
from collections.abc import Container

from trueup.rules.definition import Rule, Sighting
from trueup.rules.expression import Expression
from trueup.rules.facts import applied, errors, listed
from trueup.rules.log_facts import mentions
from trueup.rules.log_parts import printed
from trueup.schema.environment import Environment
from trueup.schema.finding import Confidence, Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Applied, Record

PREFIX = "_orig_mod."


def detect(record: Record) -> Sighting | None:
    loads = [(load, prefixed(load)) for load in applied(record, "load_state_dict") if prefixed(load)]
    crashed = errors(record, r"(?:Missing|Unexpected) key\(s\)[\s\S]*_orig_mod\.")
    if not loads and not crashed:
        return nothing_left(record)
    names = tuple(name for _, found in loads for name in found)
    missing = sum(int(load.detail.get("missing") or 0) for load, _ in loads)
    return Sighting(
        message=f"A checkpoint was loaded with {PREFIX} in its keys: {missing} parameters of the model were not filled"
        f"{' (' + listed(names, 2) + ')' if names else ''}.",
        evidence=(
            *(Evidence(what="keys with the prefix", value=listed(found), at=load.at) for load, found in loads),
            *crashed,
        ),
    )


def nothing_left(record: Record) -> Sighting | None:
    """A load that got no key for what torch.compile wraps in this job, and so gives keys the prefix.

    Programs that load only the keys which the model has drop all of them then; neither they nor torch say so.
    """
    wrapped = {
        each.module: each
        for each in applied(record, "torch.compile")
        if each.detail.get("target") == "module" and each.module
    }
    for load in applied(record, "load_state_dict"):
        kind, words = _left(load, wrapped)
        if kind is not None:
            return Sighting(
                message=f"load_state_dict left {words} as before, for want of a key that fits; the state_dict of the "
                f"compiled {kind} has {PREFIX} before each.",
                evidence=(
                    Evidence(what="left as before the load", value=words, at=load.at, ranks=(load.rank,)),
                    Evidence(what="torch.compile applied to", value=kind, at=wrapped[kind].at),
                ),
                confidence="likely",
            )
    return None


def _left(load: Applied, wrapped: Container[str | None]) -> tuple[str | None, str]:
    """Class of what a load left as it was, if torch.compile wraps that class in this job, and the words for it.

    The model itself, or rows of its blocks: a single part is often left out on purpose.
    """
    missing = int(load.detail.get("missing") or 0)
    if load.detail.get("given") == 0 and missing and load.module in wrapped:
        return load.module, f"all {missing} tensors of {load.module}"
    if load.detail.get("prefixed_file"):
        for kind, number in (load.detail.get("untouched") or {}).items():
            if kind in wrapped and (kind == load.module or number > 1):
                return kind, f"{number} blocks of class {kind}" if number > 1 else f"the whole {kind}"
    return None, ""


def prefixed(load: Applied) -> tuple[str, ...]:
    """Missing or unexpected keys that differ by the prefix."""
    names = (*load.detail.get("missing_names", ()), *load.detail.get("unexpected_names", ()))
    return tuple(str(name) for name in names if PREFIX in str(name))


KEYS = (
    r"(?:Unexpected|Missing|unexpected|missing) key(?:\(s\)|s)|were not (?:initialized|used) when"
    r"|(?:not found|missing) in (?:the )?(?:state_dict|checkpoint)|newly initialized"
)
KEY = r"(?<![\w.])(?:module\.|model\.|_fsdp_wrapped_module\.)*_orig_mod\.[\w.]*"
QUOTED = Expression(r"['\"](?:\w+\.)*_orig_mod\.[\w.]+['\"]")
LOOKED_UP = Expression(rf"KeyError: ['\"]?{KEY}")
LISTED = Expression(rf"[\[{{(,:]\s*{KEY}\s*(?:,\s*{KEY}|[\]}})])")


def detect_log(log: Log) -> Sighting | None:
    """Keys with the prefix among missing or unexpected ones, or in a list; the name in a traceback is no fault."""
    for seen in mentions(log, KEY):
        text = seen.part.said
        strict = re.search(KEYS, text)
        listed = LISTED.search(text) or QUOTED.search(printed(seen.part.failure))
        if (not strict and not listed) or _on_both_sides(text):
            continue
        confidence: Confidence = "established" if strict else "likely"
        looked_up = LOOKED_UP.search(text)
        return Sighting(
            message=f"A tensor was looked up by its name in the compiled module, {seen.found.group()}, among names "
            "without the prefix of torch.compile."
            if looked_up
            else f"State-dict keys carry the prefix of torch.compile, such as {seen.found.group()}.",
            evidence=(seen.evidence(log),),
            confidence=confidence,
            severity=None if strict or looked_up else "warning",
            failure=seen.failure,
        )
    return None


def _on_both_sides(text: str) -> bool:
    """Missing and unexpected keys both carry the prefix: they differ in something else."""
    missing, _, unexpected = text.partition("Unexpected key(s)")
    return bool(re.search(KEY, missing)) and bool(re.search(KEY, unexpected))


def detect_in_environment(environment: Environment) -> Sighting | None:
    """In a file that `from_pretrained` reads every such tensor is unexpected, and the model keeps its first weights."""
    found = {file: facts for file, facts in environment.weights.items() if facts.get("of_compiled_module")}
    if not found:
        return None
    pretrained = [file for file in found if file.rpartition("/")[2].startswith("model")]
    first = (pretrained or list(found))[0]
    return Sighting(
        message=f"The tensors in {first.rpartition('/')[2]} are named as in a compiled module ({PREFIX}): what loads "
        "it by the names of the model finds none of them.",
        evidence=tuple(
            Evidence(what="tensor in the file", value=facts["of_compiled_module"], at=file)
            for file, facts in list(found.items())[:5]
        ),
        confidence="likely" if pretrained else "possible",
        severity="warning" if pretrained else "note",
    )


RULE = Rule(
    id="compile/orig-mod-prefix-in-checkpoint",
    title="Checkpoint keys carry the _orig_mod. prefix",
    layers=("compile", "sharding", "checkpointing", "trainer"),
    severity="error",
    silent="Loaded without strict, the model keeps its random weights and the loss starts where it started before.",
    cause=(
        "torch.compile(module) returns a wrapper whose child is called _orig_mod, so its state_dict has "
        "longer keys; loaders that strip one prefix once miss nested ones."
    ),
    remedies=(
        Remedy(
            id="compile-in-place",
            kind="in-process",
            automatic=True,
            how="module.compile() instead of module = torch.compile(module), or save the unwrapped module's state_dict",
        ),
        Remedy(
            id="strip-checkpoint-prefix",
            kind="code",
            automatic=False,
            how='{key.replace("_orig_mod.", ""): value for key, value in state.items()}, loaded with strict=True',
        ),
    ),
    caution="The name in a traceback alone is no fault; it counts in missing or unexpected keys.",
    sources=(
        "https://github.com/huggingface/transformers/issues/37519",
        "https://github.com/FareedKhan-dev/train-llm-from-scratch/issues/36",
    ),
    from_record=detect,
    from_log=detect_log,
    from_environment=detect_in_environment,
)
