"""A model loaded with a device map (big-model inference habit) is compiled and trained."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(vocab_size=96, n_positions=48, n_embd=48, n_layer=4, n_head=4, use_cache=False, attn_pdrop=0.0)
model = GPT2LMHeadModel(config)
model.train()
compiled = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(10):
    ids = torch.randint(0, 96, (4, 32))
    loss = compiled(ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
