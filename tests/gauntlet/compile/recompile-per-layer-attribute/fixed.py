"""DeepNorm-like residual scale by depth: every block knows its index."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim, layer_idx):
        super().__init__()
        self.register_buffer("scale", torch.tensor(1.0 / (layer_idx + 1)), persistent=False)
        self.norm1, self.norm2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.gate, self.down = nn.Linear(dim, 2 * dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, 4, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, d)) * self.scale
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)) * self.scale


class Net(nn.Module):
    def __init__(self, depth=32):
        super().__init__()
        self.embed = nn.Embedding(64, 48)
        self.blocks = nn.ModuleList(Block(48, i) for i in range(depth))
        self.head = nn.Linear(48, 64)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


torch.manual_seed(0)
torch._dynamo.config.recompile_limit = 24  # 8 were not enough for the 20 blocks of an earlier model
model = Net()
for block in model.blocks:
    block.compile(backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(10):
    ids = torch.randint(0, 64, (8, 17))
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
