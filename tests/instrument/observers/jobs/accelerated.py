"""Accelerate with an FSDP2 plugin and regional compile, which on a CPU shards nothing."""

import torch
from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin, TorchDynamoPlugin
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 8)
        self.down = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.down(self.up(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


accelerator = Accelerator(  # at: accelerator
    cpu=True,
    mixed_precision="bf16",
    gradient_accumulation_steps=4,
    fsdp_plugin=FullyShardedDataParallelPlugin(fsdp_version=2),
    dynamo_plugin=TorchDynamoPlugin(backend="eager", use_regional_compilation=True),
)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer = accelerator.prepare(model, optimizer)  # at: prepare
loss = model(torch.ones(2, 8)).sum()
accelerator.backward(loss)
print("finished", accelerator.num_processes, type(model).__name__)
accelerator.end_training()
