"""Resume a run: the checkpoint comes from a job without compile, this one compiles before it loads."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2, use_cache=False)
earlier = GPT2LMHeadModel(config)
torch.save({"model": earlier.state_dict(), "step": 100}, "checkpoint.pt")

model = torch.compile(GPT2LMHeadModel(config), backend="aot_eager")
checkpoint = torch.load("checkpoint.pt")
model.load_state_dict(checkpoint["model"])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(checkpoint["step"], checkpoint["step"] + 8):
    ids = torch.randint(0, 64, (4, 16))
    loss = model(ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
