"""Attention over padded rows was given no mask, so that padding takes part."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import switched
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    attention = record.actual.attention
    side, calls = attention.padding, attention.unmasked_padded
    open_calls = calls.get("no mask", 0)
    # Causal attention never looks to the right: only padding before the tokens reaches them.
    before = calls.get("no mask causal", 0) if side in ("left", "both") else 0
    if not (open_calls or before) or switched(record, "attention"):
        return None
    by_mask = attention.padding_seen_in != "token ids"
    return Sighting(
        message=f"Rows are padded on the {side if side != 'both' else 'left and right'} ({attention.padding_seen_in}), "
        f"and {open_calls + before} attention calls over them were given no mask: padded keys take part.",
        evidence=(
            Evidence(what="padding", value=side),
            Evidence(what="padding seen in", value=attention.padding_seen_in),
            *(Evidence(what=f"attention calls over padded rows with {kind}", value=n) for kind, n in calls.items()),
        ),
        confidence="likely" if by_mask else "possible",
        severity="error" if by_mask else "note",
    )


RULE = Rule(
    id="attention/padding-mask-ignored",
    title="Attention call has no mask, padded keys take part",
    layers=("attention",),
    severity="error",
    silent="Nothing is printed; a row's result depends on how much padding its batch adds.",
    cause=(
        "flash_attn_func and calls with is_causal alone take no padding mask; the mask is applied to the outputs only, "
        "or not at all."
    ),
    remedies=(
        Remedy(
            id="unpad-or-mask",
            kind="code",
            automatic=False,
            how=(
                "pass the padding mask: attention_mask= (Hugging Face), src_key_padding_mask= (nn.Transformer), "
                "attn_mask=mask[:, None, None, :] (SDPA); or remove the padding and call the varlen function"
            ),
        ),
    ),
    caution="Right-padded rows of a causal decoder do not show it in the positions that count.",
    from_record=detect,
)
