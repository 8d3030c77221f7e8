"""Two gloo ranks train FSDP1 and then FSDP2, each rank from parameters of its own. Rank 0 prints facts as JSON."""

import gc
import json

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel, ShardingStrategy, StateDictType, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import DTensor

WIDTH = 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 3 * WIDTH)
        self.down = nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def clip(model):
    if isinstance(model, FullyShardedDataParallel):
        return model.clip_grad_norm_(1.0)
    return nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def train(model, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses, norms = [], []
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(steps):
        loss = model(torch.randn(4, WIDTH, generator=generator)).square().mean()
        loss.backward()
        norm = clip(model)
        norms.append((norm.full_tensor() if isinstance(norm, DTensor) else norm).item())
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(loss)
        losses.append(loss.item())
    return losses, norms


def same_everywhere(tensor):
    """Whether all ranks hold the same."""
    tensors = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(tensors, tensor.detach().contiguous())
    return all(torch.equal(tensors[0], other) for other in tensors)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
facts = {}

old = FullyShardedDataParallel(
    Model(), auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.device("cpu"), use_orig_params=True
)
facts["fsdp1"] = train(old, 3)
facts["fsdp1 strategy"] = old.sharding_strategy is ShardingStrategy.FULL_SHARD
facts["fsdp1 held"] = sum(p.numel() for p in old.parameters())
with FullyShardedDataParallel.state_dict_type(old, StateDictType.FULL_STATE_DICT):
    facts["fsdp1 agree"] = all(same_everywhere(tensor) for tensor in old.state_dict().values())
del old
gc.collect()  # what is gone is not observed

model = Model()
for block in model.blocks:
    fully_shard(block, reshard_after_forward=True)
fully_shard(model, mesh=dist.init_device_mesh("cpu", (2,)))
facts["fsdp2"] = train(model, 6)
facts["fsdp2 class"] = isinstance(model, FSDPModule)
facts["fsdp2 sharded"] = isinstance(next(model.parameters()), DTensor)
facts["fsdp2 held"] = sum(p.to_local().numel() for p in model.parameters())
facts["fsdp2 agree"] = all(same_everywhere(p.full_tensor()) for p in model.parameters())
facts["whole"] = sum(p.numel() for p in model.parameters())
if dist.get_rank() == 0:
    print(json.dumps(facts))
dist.barrier()
dist.destroy_process_group()
