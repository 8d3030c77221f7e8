"""DDP with an auxiliary head that is used in every third step only."""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Linear(64, 5)
        self.auxiliary = nn.Linear(64, 24)

    def forward(self, x, reconstruct):
        h = self.body(x)
        return self.head(h), self.auxiliary(h) if reconstruct else None


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(12):
        x = torch.randn(16, 24)
        logits, rebuilt = model(x, reconstruct=step % 3 == 0)
        loss = F.cross_entropy(logits, x[:, :5].argmax(1))
        if rebuilt is not None:
            loss = loss + 0.1 * F.mse_loss(rebuilt, x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(step, loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
