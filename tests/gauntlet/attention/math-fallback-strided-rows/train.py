"""A decoder whose queries and keys are rotated with channels before positions."""

import torch
import torch.nn.functional as F
from torch import nn

LAST = False
"""Whether the rotated tensors are laid out with the channels last."""
WIDTH, HEADS, LENGTH, VOCABULARY = 64, 4, 96, 128


def rotated(states, cos, sin):
    """(rows, heads, length, size), in the order of memory (rows, heads, size, length)."""
    columns = states.transpose(-1, -2).contiguous()
    first, second = columns.chunk(2, dim=-2)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-2).transpose(-1, -2)
    return turned.contiguous() if LAST else turned


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, hidden, cos, sin):
        rows, length, _ = hidden.shape
        split = self.qkv(self.norm(hidden)).view(rows, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        query, key = rotated(query, cos, sin), rotated(key, cos, sin)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.out(mixed.transpose(1, 2).reshape(rows, length, WIDTH))
        return hidden + self.mlp(hidden)


class Decoder(nn.Module):
    def __init__(self, blocks=4):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.head = nn.Linear(WIDTH, VOCABULARY)
        half = WIDTH // HEADS // 2
        angles = torch.outer(10000.0 ** (-torch.arange(half) / half), torch.arange(LENGTH))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens):
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden, self.cos, self.sin)
        return self.head(hidden)


def main():
    torch.manual_seed(0)
    model = Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, 1.0, 5)
    for step in range(16):
        tokens = torch.randint(0, VOCABULARY, (4, LENGTH))
        logits = model(tokens)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
