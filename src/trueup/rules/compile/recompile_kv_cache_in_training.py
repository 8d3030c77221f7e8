"""A training forward builds a key/value cache, and every block is compiled again for its place in it."""

from __future__ import annotations

from trueup.rules.compilation import effect, storm_evidence
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.guards import storms
from trueup.rules.recompile_logs import storm
from trueup.schema.finding import Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    found = storms(compile, "cache", at_least=2)
    if not found:
        return None
    count = sum(storm.count for storm in found)
    limit = " up to the recompile limit" if any(storm.limit for storm in found) else ""
    return Sighting(
        message=f"{found[0].function} was compiled again {count} times{limit} because a KV cache grew"
        f"{effect(compile)}.",
        evidence=storm_evidence(found, compile),
    )


def detect_log(log: Log) -> Sighting | None:
    """A guard that names the cache."""
    found = storm(log, "cache")
    if found is None:
        return None
    return found.sighting(f"a guard on the KV cache failed ({found.guards[-1].text})")


RULE = Rule(
    id="compile/recompile-kv-cache-in-training",
    title="Training forward builds a KV cache and recompiles per layer",
    layers=("compile", "trainer"),
    severity="warning",
    silent="Training goes on and the loss is right; one log line on one rank says that the limit was reached.",
    cause=(
        "use_cache is on by default, so each training forward makes a cache; Dynamo guards on the state of "
        "each cache layer, which differs from block to block and from step to step."
    ),
    remedies=(
        Remedy(
            id="disable-kv-cache",
            kind="in-process",
            automatic=True,
            how="model.config.use_cache = False before the model is compiled, or pass use_cache=False in the call",
        ),
    ),
    caution=(
        "Gradient checkpointing of the model drops the cache and hides this. Generation needs the cache; "
        "use a static one there."
    ),
    sources=("https://github.com/huggingface/accelerate/issues/3543",),
    explains=(
        "compile/recompile-per-layer-attribute",
        "compile/recompile-limit-reached",
        "compile/requested-and-not-applied",
    ),
    from_record=detect,
    log=(
        LogText(text="layers[<index>].is_initialized == False", versions="transformers 4.56 and newer, a guard alone"),
        LogText(text="len(L['past_key_values'].key_cache)", versions="transformers 4.4x to 4.5x, a guard alone"),
        LogText(text="past_key_values.key_cache", strength="supporting", versions="transformers 4.4x to 4.5x"),
    ),
    from_log=detect_log,
)
