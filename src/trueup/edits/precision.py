"""Precision: loss scaling and what is trained in which dtype."""

from __future__ import annotations

import libcst as cst

from trueup.edits.calls import argument, is_open, with_keyword
from trueup.edits.draft import Draft, last_name, literal
from trueup.edits.optimizers import made, model_of
from trueup.edits.values import Site, put, sites

SCALERS = ("torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.amp.grad_scaler.GradScaler")
LOW = {"torch.bfloat16", "torch.float16"}


def no_scaler(draft: Draft) -> bool:
    """The scaler stays where it is called, and does nothing."""
    done = False
    for source in draft.job.sources():
        for call in source.calls_of(*SCALERS):
            if is_open(call) or not _is_literal_or_missing(argument(call, "enabled")):
                return False
            draft.of(source).change(call, lambda node: with_keyword(node, "enabled", "False"))
            done = True
    return done


def float32_under_autocast(draft: Draft) -> bool:
    """The weights are loaded in float32 where the job computes under autocast already."""
    if not draft.job.record.requested.get("precision", {}).get("dtype"):
        return False
    low = [
        site
        for site in sites(draft.job.sources(), "dtype", "torch_dtype")
        if LOW & site.source.names(site.value) and _is_loading(site)
    ]
    return len(low) == 1 and put(draft, low, "torch.float32")


def float32_trainable(draft: Draft) -> bool:
    """What requires a gradient is cast in front of the line that makes the optimizer."""
    place = made(draft)
    model = model_of(*place) if place is not None else None
    if place is None or model is None:
        return False
    source, line = place
    draft.of(source).insert_before(
        line,
        f"for parameter in {model}.parameters():\n"
        "    if parameter.requires_grad:\n"
        "        parameter.data = parameter.data.float()",
    )
    return True


def _is_loading(site: Site) -> bool:
    call = next((node for node in site.source.enclosing(site.value) if isinstance(node, cst.Call)), None)
    return call is not None and last_name(call) in ("from_pretrained", "from_config", "_from_config")


def _is_literal_or_missing(node: cst.BaseExpression | None) -> bool:
    return node is None or isinstance(literal(node), bool)
