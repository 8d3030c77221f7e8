"""Our trainer has a use_torch_compile option, which compiles the log-prob helper."""

import argparse

import torch
import torch.nn as nn


class Mixer(nn.Module):
    """A gated recurrence over the places of a row."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.out = nn.RMSNorm(width), nn.Linear(width, width)
        self.gate, self.value = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        y = self.norm(x)
        gates, values = torch.sigmoid(self.gate(y)).unbind(1), torch.tanh(self.value(y)).unbind(1)
        state, states = torch.zeros_like(x[:, 0]), []
        for gate, value in zip(gates, values, strict=True):
            state = gate * state + (1 - gate) * value
            states.append(state)
        return x + self.out(torch.stack(states, 1))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 32)
        self.blocks = nn.ModuleList(Mixer(32) for _ in range(12))
        self.head = nn.Linear(32, 64)

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
        self.logprobs = torch.compile(logprobs) if use_torch_compile else logprobs
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(self, batches):
        total = 0.0
        for ids in batches:
            loss = -self.logprobs(self.model(ids[:, :-1]), ids[:, 1:]).mean() / len(batches)
            loss.backward()
            total += loss.item()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--use-torch-compile", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    trainer = Trainer(Actor(), options.use_torch_compile)
    for step in range(30):
        print(step, trainer.step(torch.randint(0, 64, (6, 2, 129))), flush=True)


if __name__ == "__main__":
    main()
