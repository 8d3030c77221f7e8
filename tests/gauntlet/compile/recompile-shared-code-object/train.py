"""Policy, value, reference and reward model of one architecture, each compiled block by block."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Tower(nn.Module):
    def __init__(self, dim, outputs):
        super().__init__()
        self.embed = nn.Embedding(64, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(3))
        self.head = nn.Linear(dim, outputs)
        for block in self.blocks:
            block.compile(backend="aot_eager", dynamic=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main():
    torch.manual_seed(0)
    policy, value = Tower(48, 64), Tower(40, 1)
    reference, reward = Tower(48, 64), Tower(32, 1)
    for frozen in (reference, reward):
        frozen.requires_grad_(False)
    optimizer = torch.optim.AdamW([*policy.parameters(), *value.parameters()], lr=1e-3)
    for step in range(14):
        ids = torch.randint(0, 64, (4, 12 if step % 2 else 16))
        with torch.no_grad():
            old = policy(ids).log_softmax(-1)
            guide = reference(ids).log_softmax(-1)
            returns = reward(ids).squeeze(-1)
            value(ids)
        new = policy(ids).log_softmax(-1)
        estimate = value(ids).squeeze(-1)
        chosen = new.gather(-1, ids[..., None]).squeeze(-1)
        ratio = (chosen - old.gather(-1, ids[..., None]).squeeze(-1)).exp()
        kl = (new.exp() * (new - guide)).sum(-1)
        loss = -(ratio * (returns - estimate.detach())).mean() + 0.1 * kl.mean() + F.mse_loss(estimate, returns)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
