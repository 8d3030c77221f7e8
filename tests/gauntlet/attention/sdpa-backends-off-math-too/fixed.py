"""Only the flash kernel is allowed around the model, to be sure that nothing else runs."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 64)
        self.qkv = nn.ModuleList(nn.Linear(64, 192) for _ in range(3))
        self.head = nn.Linear(64, 64)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.qkv:
            q, k, v = (part.unflatten(-1, (4, 16)).transpose(1, 2) for part in layer(x).chunk(3, -1))
            x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
        return self.head(x)


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(10):
    ids = torch.randint(0, 64, (4, 33))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
