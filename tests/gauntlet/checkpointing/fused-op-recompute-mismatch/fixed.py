"""Character model with recomputed feed-forward blocks; FUSED=0 takes the plain form of SwiGLU."""

import torch
from fused_swiglu import swiglu
from torch import nn
from torch.utils.checkpoint import checkpoint

FUSED = False


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.w1 = nn.Parameter(torch.randn(inner, width) / width**0.5)
        self.w2 = nn.Parameter(torch.randn(inner, width) / width**0.5)
        self.w3 = nn.Parameter(torch.randn(width, inner) / inner**0.5)

    def forward(self, x):
        y = self.norm(x)
        if FUSED:
            return x + swiglu(y, self.w1, self.w2, self.w3)
        return x + nn.functional.linear(
            nn.functional.silu(nn.functional.linear(y, self.w1)) * nn.functional.linear(y, self.w2), self.w3
        )


class Characters(nn.Module):
    def __init__(self, width=32, depth=3):
        super().__init__()
        self.embed = nn.Embedding(64, width)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.layers = nn.ModuleList(FeedForward(width, 3 * width) for _ in range(depth))
        self.out = nn.Linear(width, 64)

    def forward(self, ids):
        x, _ = self.mix(self.embed(ids))
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return self.out(x)


def main():
    torch.manual_seed(0)
    model = Characters()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(15):
        ids = (torch.arange(33) * torch.randint(1, 5, (8, 1)) + torch.randint(0, 64, (8, 1))) % 64
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, round(loss.item(), 4), flush=True)


if __name__ == "__main__":
    main()
