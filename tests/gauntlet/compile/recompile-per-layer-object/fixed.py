"""Attention processors in the style of diffusion models: one object per block, chosen at construction."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Processor:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, block, x):
        b, s, d = x.shape
        q, k, v = block.qkv(x).view(b, s, 3, block.heads, -1).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, scale=self.scale).transpose(1, 2).reshape(b, s, d)


class Block(nn.Module):
    def __init__(self, dim, heads, processor):
        super().__init__()
        self.heads = heads
        self.processor = processor
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.mlp_norm = nn.LayerNorm(dim)
        self.up, self.gate, self.down = nn.Linear(dim, 2 * dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        x = x + self.out(self.processor(self, self.norm(x)))
        y = self.mlp_norm(x)
        return x + self.down(F.gelu(self.gate(y)) * self.up(y))


class Denoiser(nn.Module):
    def __init__(self, depth=32, dim=48, heads=4):
        super().__init__()
        processor = Processor(0.3)
        self.blocks = nn.ModuleList(Block(dim, heads, processor) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


torch.manual_seed(0)
torch._dynamo.config.recompile_limit = 24  # 8 were not enough for the 20 blocks of an earlier model
model = Denoiser()
model.blocks = nn.ModuleList(torch.compile(block, backend="aot_eager") for block in model.blocks)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(10):
    clean = torch.randn(4, 16, 48)
    noise = torch.randn_like(clean)
    loss = F.mse_loss(model(clean + noise), noise)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
