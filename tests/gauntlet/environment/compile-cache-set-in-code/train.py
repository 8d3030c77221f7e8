"""A small vision transformer on coloured squares, blocks compiled."""

import settings
import torch
from torch import nn

settings.configure()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.heads = heads

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, n, c))
        return x + self.mlp(self.norm2(x))


class Squares(nn.Module):
    def __init__(self, width=32, depth=2):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, stride=4)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(depth))
        self.head = nn.Linear(width, 3)

    def forward(self, image):
        x = self.patch(image).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def batch(generator):
    colour = torch.randint(0, 3, (12,), generator=generator)
    image = 0.3 * torch.randn(12, 3, 16, 16, generator=generator)
    image[torch.arange(12), colour, 4:12, 4:12] += 1.0
    return image, colour


def train():
    torch.manual_seed(7)
    net = Squares()
    for block in net.blocks:
        block.compile()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(8)
    for step in range(16):
        image, colour = batch(generator)
        loss = nn.functional.cross_entropy(net(image), colour)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{step:2d} {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    train()
