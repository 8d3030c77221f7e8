"""Sweep over learning rates: every trial starts from a deep copy of the same compiled model."""

import copy

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
template = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=32, n_embd=48, n_layer=4, n_head=4, use_cache=False))
for block in template.transformer.h:
    block.compile(backend="aot_eager")

for lr in (1e-3, 3e-3):
    model = copy.deepcopy(template)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for _ in range(8):
        ids = torch.randint(0, 100, (4, 24))
        loss = model(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print("lr", lr, "loss", loss.item(), flush=True)
