"""Does a document of a packed row change the results of later ones? Asked of a model and one batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trueup.instrument import inside
from trueup.schema.record import Leakage


def leakage(model: Any, batch: Any, *, eos: int | None = None, bos: int | None = None) -> Leakage:
    """Change tokens of one document of each row of `batch` and compare the logits of the later ones.

    `batch` is what the model is called with: a mapping of keyword arguments, a tuple of positional ones, or the token
    ids alone, of shape (rows, positions). Documents are told apart by what the model is given: `position_ids` that
    begin again, `cu_seq_lens_q`, numbers of documents, a block mask; or by the token id `eos` that ends or `bos` that
    begins each. The model runs four times without gradients, in the mode it is in. Random numbers, buffers and
    attributes are afterwards as before. Under FSDP every rank must call this with packed rows.

    The verdict of a sound model is `none`, its `change` exactly 0.0; `not packed` where no row holds two documents;
    `not probed`, with a `reason`, where the model gives nothing to compare.
    """
    inside.make_importable()
    from trueup_instrument.probes.calls import Call
    from trueup_instrument.probes.documents import documents_of
    from trueup_instrument.probes.leakage import CannotMeasure, measure

    if isinstance(batch, Mapping):
        call = Call(model, (), batch)
    else:
        call = Call(model, batch if isinstance(batch, tuple) else (batch,), {})
    tokens = call.tokens()
    if tokens is None:
        return Leakage(verdict="not probed", reason="no argument holds token ids of shape (rows, positions)")
    documents = documents_of(call.named, call.named[tokens], eos=eos, bos=bos)
    if documents is None:
        return Leakage(verdict="not packed", reason="no row holds two documents")
    try:
        return msgspec.convert(measure(model, call, tokens, documents), Leakage)
    except CannotMeasure as error:
        return Leakage(verdict="not probed", reason=str(error))
