"""Rehearse our FSDP1 training on the CI machine: accelerate with a full-shard plugin on two processes."""

import torch
from accelerate import Accelerator
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=1)
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=200, n_positions=32, n_embd=64, n_layer=4, n_head=4, use_cache=False))
for block in model.transformer.h:
    fully_shard(block)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
ids = torch.randint(0, 200, (64, 32))
optimizer, loader = accelerator.prepare(optimizer, DataLoader(ids, batch_size=4))
model.train()
for step, batch in enumerate(loader):
    loss = model(input_ids=batch, labels=batch).loss
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    accelerator.print("step", step, "loss", round(loss.item(), 3))
accelerator.end_training()
