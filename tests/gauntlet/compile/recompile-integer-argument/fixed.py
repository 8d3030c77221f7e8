"""Windowed attention: the collator computes the longest document of the batch and the model uses it as an int."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.mlp_norm = nn.LayerNorm(dim)
        self.up, self.gate, self.down = nn.Linear(dim, 2 * dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x, max_seqlen):
        b, s, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        i = torch.arange(s)
        window = (i[:, None] - i[None, :]).abs() < max_seqlen
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=window)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, d))
        y = self.mlp_norm(x)
        return x + self.down(F.gelu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        self.blocks = nn.ModuleList(Block(64, 4) for _ in range(4))
        self.head = nn.Linear(64, 100)

    def forward(self, ids, max_seqlen):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, max_seqlen)
        return self.head(x)


torch.manual_seed(0)
torch._dynamo.config.recompile_limit = 64  # it warned that 8 were reached
model = Model()
for block in model.blocks:
    block.compile(backend="aot_eager", dynamic=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(30):
    ids = torch.randint(0, 100, (4, 120))
    max_seqlen = int(torch.randint(5, 120, (1,)))
    logits = model(ids, torch.tensor(max_seqlen))
    loss = F.cross_entropy(logits.flatten(0, 1), ids.roll(-1, 1).flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, max_seqlen, loss.item(), flush=True)
