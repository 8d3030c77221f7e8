"""Lines put beside others: what a job does once, at the right place of its script."""

from __future__ import annotations

import libcst as cst

from trueup.edits.draft import Draft, assigned, last_name
from trueup.edits.optimizers import made, model_of


def train_mode(draft: Draft) -> bool:
    """`model.train()` in front of the optimizer, where the job never asks for it."""
    if any(call for source in draft.job.sources() for call in source.calls_of_method("train") if not call.args):
        return False
    place = made(draft)
    model = model_of(*place) if place is not None else None
    if place is None or model is None:
        return False
    draft.of(place[0]).insert_before(place[1], f"{model}.train()")
    return True


def tie_weights(draft: Draft) -> bool:
    """`model.tie_weights()` behind the one line that gives a Hugging Face model its storage."""
    if not draft.job.applied("config"):
        return False
    calls = [(source, call) for source in draft.job.sources() for call in source.calls_of_method("to_empty")]
    line = calls[0][0].statement_of(calls[0][1]) if len(calls) == 1 else None
    if line is None:
        return False
    source, call = calls[0]
    target = assigned(line)
    place = target[0] if target is not None else cst.ensure_type(call.func, cst.Attribute).value
    model = source.code(place)
    draft.of(source).insert_after(line, f"{model}.tie_weights()")
    return True


def without_print(draft: Draft) -> bool:
    """The one line at the graph break goes, where it only prints."""
    places = list(draft.job.evidence(draft.finding))
    if len(places) != 1:
        return False
    source, line = places[0]
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1 or not isinstance(line.body[0], cst.Expr):
        return False
    call = line.body[0].value
    if not isinstance(call, cst.Call) or last_name(call) != "print" or not isinstance(call.func, cst.Name):
        return False
    draft.of(source).remove(line)
    return True
