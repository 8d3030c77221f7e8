"""Packed training of a small model with dropout, in the way that the first argument names.

`leaking`, `masked`: own model without and with its block mask. `compiled`: blocks compiled, leaking. `whole`: the whole
model compiled. `accumulating`: batches come from no DataLoader. `unpacked`: one document a row. `fsdp`, `ddp`: of two
ranks the second has no packed rows.
"""

import os
import random
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).parents[1]))
from own_model import Own, block_mask, packed_batch

kind = sys.argv[1]
rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
if world > 1:
    torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
model = bare = Own(dropout=0.2, batch_norm=kind == "ddp")
if kind == "compiled":
    for block in model.blocks:
        block.compile(backend="aot_eager")
elif kind == "whole":
    model = torch.compile(model, backend="aot_eager")
elif kind == "fsdp":
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
elif kind == "ddp":
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def batches():
    for number in range(int(os.environ.get("BATCHES", "4"))):
        lengths = (40,) if kind == "unpacked" or (world > 1 and rank == 1) else (9, 14, 7, 10)
        yield packed_batch(rows=2, lengths=lengths, seed=number)


loader = batches() if kind == "accumulating" else DataLoader(list(batches()), batch_size=None)
torch.manual_seed(rank)
random.seed(0)
for batch in loader:
    ids, positions = batch["input_ids"], batch["position_ids"]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == "masked"):
        logits = model(ids, block_mask(positions) if kind == "masked" else None, positions)
    loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    told = (rank, loss.item().hex(), random.random(), [block.calls for block in bare.blocks])
    sys.stdout.write(f"{told}\n")  # one write: the ranks share a pipe
    sys.stdout.flush()
if world > 1:
    torch.distributed.destroy_process_group()
