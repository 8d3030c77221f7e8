"""Packed documents see each other, because a mask or cache keeps transformers from noticing that they are packed."""

from __future__ import annotations

from trueup.rules.attention_leakage import leak_evidence, leak_in_words, leaks, measured_clean
from trueup.rules.definition import Rule, Sighting
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    attention = record.actual.attention
    dense = any(kernel.name.startswith(("sdpa", "eager")) for kernel in attention.kernels)
    measured = leaks(attention)
    if measured_clean(attention) or not (measured or (attention.packed and not attention.boundaries and dense)):
        return None
    hiding = []
    kept_apart = set(attention.masks) == {"other"}  # what the model made of the mask it was given is a block mask
    if attention.masks.get("all-ones") or (attention.given_mask == "all-ones" and not kept_apart):
        hiding.append("an all-ones mask")
    elif attention.given_mask == "padding" and attention.requested:  # a model of transformers: own models may use it
        hiding.append("a padding mask")
    if attention.cache:
        hiding.append("a KV cache")
    if not hiding:
        return None
    return Sighting(
        message=f"Rows hold several documents (position ids restart), and {' and '.join(hiding)} made "
        f"transformers use a plain causal mask: tokens attend to earlier documents{leak_in_words(attention)}.",
        evidence=(
            *leak_evidence(attention),
            Evidence(what="position ids restart within a row", value=attention.packed),
            Evidence(what="mask given to the model", value=attention.given_mask),
            Evidence(what="calls with an all-ones mask", value=attention.masks.get("all-ones", 0)),
            Evidence(what="a KV cache was filled", value=attention.cache),
        ),
        confidence="established" if measured else "likely",
        # Without a cache to switch off only the mask is left to leave out; leak-free-packing does both.
        remedies=() if attention.cache else tuple(each for each in RULE.remedies if each.id != "disable-kv-cache"),
    )


RULE = Rule(
    id="attention/packing-leak-mask-or-cache-present",
    title="Packed documents leak because a mask or cache is present",
    layers=("attention", "trainer"),
    severity="error",
    silent="Nothing is printed; the loss is only a little different.",
    cause=(
        "transformers recognises packed rows only when no mask and no cache is given; an all-ones mask from "
        "the collator or the default use_cache=True switches that off."
    ),
    remedies=(
        Remedy(
            id="disable-kv-cache",
            kind="in-process",
            automatic=True,
            how="model.config.use_cache = False",
        ),
        Remedy(
            id="leak-free-packing",
            kind="in-process",
            automatic=True,
            how="model.config.use_cache = False, and no attention_mask from the collator for packed rows",
        ),
        Remedy(
            id="pass-sequence-boundaries",
            kind="code",
            automatic=False,
            how="cu_seq_lens_q/k with flash attention, or a 4-D block mask; trueup run --probe packing measures it",
        ),
    ),
    caution=(
        "Only where position ids really restart inside of a row. Model-side checkpointing drops the cache "
        "and hides half."
    ),
    sources=("https://github.com/huggingface/transformers/pull/46634",),
    explains=("attention/packing-without-varlen-attention",),
    from_record=detect,
)
