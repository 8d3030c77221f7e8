"""Our trainer has a use_torch_compile option, which compiles the log-prob helper."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 48)
        self.blocks = nn.ModuleList(Block(48) for _ in range(4))
        self.head = nn.Linear(48, 64)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def logprobs(logits, labels):
    return logits.log_softmax(-1).gather(-1, labels[..., None]).squeeze(-1)


class Trainer:
    def __init__(self, model, use_torch_compile):
        self.model = model
        self.logprobs = torch.compile(logprobs, backend="aot_eager") if use_torch_compile else logprobs
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(self, ids):
        loss = -self.logprobs(self.model(ids[:, :-1]), ids[:, 1:]).mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--use-torch-compile", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    trainer = Trainer(Actor(), options.use_torch_compile)
    for step in range(12):
        print(step, trainer.step(torch.randint(0, 64, (8, 17))), flush=True)


if __name__ == "__main__":
    main()
