"""What configuration and code asked for, layer by layer: {layer: {setting: value}}."""

from __future__ import annotations

from typing import Any

from trueup.runs.events import Event
from trueup.runs.merging.job import Job
from trueup.runs.merging.samples import recorded, steady_samples
from trueup.runs.merging.values import items, mapping, text

REPLICATED = ("DDP", "DataParallel")
FSDP = ("FSDP1", "FSDP2")
CONFIGURED = ("TrainingArguments.fsdp", "fsdp_plugin", "ACCELERATE_USE_FSDP")
"""Sources of one request, which pass it on to each other in this order."""
SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "half": "fp16", "float": "fp32"}


def merged_requested(job: Job) -> dict[str, dict[str, Any]]:
    """Requests of launchers, then of the lead rank. The last value of a setting counts, with two exceptions.

    A sharding strategy is not withdrawn by the replication that a trainer falls back to, and several make one together.
    Precision is what was asked for first: autocast and the sharding policy repeat it in their own terms later.
    """
    events = [event for log in job.launchers for event in log.of("request")]
    if job.lead is not None and job.lead.log not in job.launchers:
        events += job.lead.log.of("request")
    requested: dict[str, dict[str, Any]] = {}
    for event in events:
        layer, setting, value = text(event.get("layer")), text(event.get("setting")), event.get("value")
        if layer is None or setting is None or value is None:
            continue
        settings = requested.setdefault(layer, {})
        if (layer, setting) == ("precision", "dtype"):
            settings.setdefault(setting, SHORT.get(str(value), value))
        else:
            settings[setting] = value
    contexts = _contexts(job)
    if contexts:
        requested.setdefault("attention", {}).setdefault("backends", contexts)
    strategies = _strategies(events)
    if strategies:
        requested["sharding"]["strategy"] = " + ".join(strategies)
    return requested


def _contexts(job: Job) -> list[str]:
    """What each `sdpa_kernel` of the sampled steps allows, as in `FLASH_ATTENTION, MATH`; each once."""
    found = []
    for sample in recorded(steady_samples(job)):
        for names in items(mapping(sample.get("attention")).get("contexts")):
            found.append(", ".join(str(name) for name in items(names)))
    return list(dict.fromkeys(found))


def _strategies(events: list[Event]) -> list[str]:
    """The sharding strategies asked for, each once; replication only when nothing else was.

    Configuration names one strategy: TrainingArguments and accelerate's plugin tell the same request, the plugin last.
    """
    asked = [
        event
        for event in events
        if (event.get("layer"), event.get("setting")) == ("sharding", "strategy") and event.get("value")
    ]
    configured = [event for event in asked if event.get("source") in CONFIGURED and str(event["value"]) in FSDP]
    repeated = {id(event) for event in configured[:-1]}
    seen = list(dict.fromkeys(str(event["value"]) for event in asked if id(event) not in repeated))
    if "HSDP" in seen:  # the same call, seen with its two-dimensional mesh
        seen = [name for name in seen if name != "FSDP2"]
    return [name for name in seen if name not in REPLICATED] or seen
