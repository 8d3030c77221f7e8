"""Fine-tune GPT-2 (small, random) with the attention dropout of the original configuration."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(vocab_size=160, n_positions=64, n_embd=64, n_layer=4, n_head=4, attn_pdrop=0.0, use_cache=False)
model = GPT2LMHeadModel(config)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
accumulate = 2
for micro in range(20):
    ids = torch.randint(0, 160, (2, 48))
    loss = model(ids, labels=ids).loss / accumulate
    loss.backward()
    if (micro + 1) % accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
        print(micro, loss.item() * accumulate, flush=True)
