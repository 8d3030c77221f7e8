"""Sparse mixture of experts, two experts a token, blocks recomputed in the backward pass."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Router(nn.Module):
    """Scores of the experts. The sum over chunks runs in the order in which the chunks arrive, as atomics do."""

    def __init__(self, width, experts):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(experts, width) * width**-0.5)
        self.arrival = torch.Generator().manual_seed(99)

    def forward(self, x):
        order = torch.randperm(x.size(1), generator=self.arrival)
        scores = torch.zeros(x.size(0), self.weight.size(0), dtype=torch.bfloat16)
        for part in order.split(4):
            scores = scores + (x[:, part] @ self.weight[:, part].T).bfloat16()
        return scores.float()


class SparseMoe(nn.Module):
    def __init__(self, width, experts=4, top_k=2):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.router = Router(width, experts)
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))
        self.top_k = top_k

    def forward(self, hidden):
        x = self.norm(hidden).flatten(0, 1)
        weight, chosen = self.router(x).softmax(-1).topk(self.top_k, dim=-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, place = (chosen == number).nonzero(as_tuple=True)
            out = out.index_add(0, token, expert(x[token]) * weight[token, place].unsqueeze(1))
        return hidden + out.view_as(hidden)


class Model(nn.Module):
    def __init__(self, vocabulary, width, depth, recompute):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(SparseMoe(width) for _ in range(depth))
        self.head = nn.Linear(width, vocabulary)
        self.recompute = recompute

    def forward(self, ids):
        h = self.embed(ids)
        for layer in self.layers:
            h = checkpoint(layer, h, use_reentrant=False) if self.recompute else layer(h)
        return self.head(h)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    torch.manual_seed(1)
    model = Model(128, 32, 2, options.recompute)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(options.steps):
        ids = torch.randint(0, 128, (8, 65))
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, :-1].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print(f"{step} {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
