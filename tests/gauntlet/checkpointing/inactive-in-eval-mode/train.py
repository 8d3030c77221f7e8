"""Continue training from a saved model with gradient checkpointing."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(vocab_size=96, n_positions=48, n_embd=48, n_layer=4, n_head=4, use_cache=False, attn_pdrop=0.0)
GPT2LMHeadModel(config).save_pretrained("start")

model = GPT2LMHeadModel.from_pretrained("start")
model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(12):
    ids = torch.randint(0, 96, (4, 40))
    loss = model(ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
