"""FSDP1 around a model with 8-bit weights of our own."""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


class Int8Linear(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        weight = torch.randn(outputs, inputs) * 0.05
        scale = weight.abs().amax(1, keepdim=True) / 127
        self.weight = nn.Parameter((weight / scale).round().to(torch.int8), requires_grad=False)
        self.register_buffer("scale", scale)

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype) * self.scale)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Int8Linear(32, 64)
        self.middle = Int8Linear(64, 64)
        self.head = nn.Linear(64, 8)

    def forward(self, x):
        return self.head(F.relu(self.middle(F.relu(self.first(x)))))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Net()
    quantised = [m for m in model.modules() if isinstance(m, Int8Linear)]
    print(len(quantised), "quantised layers")
    model = FSDP(model, use_orig_params=True, device_id=torch.device("cpu"))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    for step in range(8):
        x = torch.randn(16, 32)
        loss = F.cross_entropy(model(x), x[:, :8].argmax(1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
