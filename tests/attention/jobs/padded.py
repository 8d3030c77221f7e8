"""Packed rows that end, or begin, in padding, with the mask of it; `exact` gives the model the block mask instead."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from own_model import packed_batch
from packed_models import llama

side, exact = sys.argv[1], "exact" in sys.argv
model = llama(use_cache=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(4):
    batch = packed_batch(rows=2, lengths=(9, 14, 7), seed=number)
    padding = torch.zeros(2, 6, dtype=torch.long)
    kept = torch.ones_like(batch["input_ids"])

    def padded(value, fill=padding):
        return torch.cat([value, fill] if side == "right" else [fill, value], 1)

    positions = padded(batch["position_ids"], torch.arange(6).expand(2, -1) if side == "left" else padding)
    mask, ids = padded(kept), padded(batch["input_ids"])
    labels = ids.masked_fill(mask == 0, -100)
    if exact:
        numbers = (positions == 0).long().cumsum(1)
        allowed = numbers[:, None, :, None] == numbers[:, None, None, :]
        allowed = allowed & torch.ones(36, 36, dtype=torch.bool).tril()
        mask = torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)
    loss = model(input_ids=ids, attention_mask=mask, position_ids=positions, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item(), flush=True)
