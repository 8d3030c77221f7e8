"""Documents of a batch in one row, with what attention needs to keep them apart as tensors and plain integers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

IGNORED = -100
"""Label that losses of transformers and of torch leave out."""
MULTIPLE = 128
"""The longest document is rounded up to this many tokens: each new number is a new graph, and an upper bound is all
that kernels need."""


def packed(
    documents: Iterable[Any], *, tokens: int | None = None, pad: int = 0, multiple: int = MULTIPLE
) -> dict[str, Any]:
    """One row out of documents: what a Hugging Face model takes, and a `collate_fn`.

    A document is a list or tensor of token ids, or a mapping with `input_ids` and, where they differ, `labels`.

    `tokens` fills the row up to a fixed length with a document of `pad` tokens that no loss sees: rows of one length
    make one graph. Raises ValueError where the documents are longer than that, or there are none.

    Returns `input_ids`, `position_ids` and `labels` of shape (1, tokens), `cu_seq_lens_q` and `cu_seq_lens_k` of shape
    (documents + 1,) and int32, `max_length_q` and `max_length_k`, both int. The first token of a document is predicted
    from nothing: its label is -100.
    """
    import torch

    ids: list[Any] = []
    labels: list[Any] = []
    for document in documents:
        of = document if isinstance(document, Mapping) else {"input_ids": document}
        ids.append(torch.as_tensor(of["input_ids"], dtype=torch.long).reshape(-1))
        told = of.get("labels")
        labels.append(ids[-1].clone() if told is None else torch.as_tensor(told, dtype=torch.long).reshape(-1).clone())
        if len(ids[-1]) != len(labels[-1]) or not len(ids[-1]):
            raise ValueError(f"document {len(ids) - 1} has {len(ids[-1])} tokens and {len(labels[-1])} labels")
        labels[-1][0] = IGNORED
    if not ids:
        raise ValueError("no documents to pack")
    total = sum(map(len, ids))
    if tokens is not None and total > tokens:
        raise ValueError(f"{total} tokens of {len(ids)} documents do not go into a row of {tokens}")
    if tokens is not None and total < tokens:
        ids.append(torch.full((tokens - total,), pad))
        labels.append(torch.full((tokens - total,), IGNORED))
    lengths = torch.tensor([len(each) for each in ids])
    starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
    longest = -(-int(lengths.max()) // multiple) * multiple
    return {
        "input_ids": torch.cat(ids)[None],
        "position_ids": torch.cat([torch.arange(len(each)) for each in ids])[None],
        "labels": torch.cat(labels)[None],
        "cu_seq_lens_q": starts,
        "cu_seq_lens_k": starts.clone(),  # one tensor given twice breaks graphs of torch 2.13
        "max_length_q": longest,
        "max_length_k": longest,
    }
