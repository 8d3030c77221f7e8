"""Bottleneck adapters beside the frozen layers of an encoder, one FSDP1 unit per layer."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import ModuleWrapPolicy


class Layer(nn.Module):
    def __init__(self, width, rank=8):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width, bias=False), nn.Linear(2 * width, width, bias=False)
        self.adapter = nn.Sequential(nn.Linear(width, rank, bias=False), nn.GELU(), nn.Linear(rank, width, bias=False))

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x))) + self.adapter(x)


class Encoder(nn.Module):
    def __init__(self, vocabulary=96, width=48, depth=3):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.trunk = nn.ModuleList(Layer(width) for _ in range(depth))
        self.head = nn.Linear(width, 2, bias=False)

    def forward(self, ids):
        x = self.tokens(ids)
        for layer in self.trunk:
            x = layer(x)
        return self.head(x.mean(1))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Encoder()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("adapter" in name)
    model = FSDP(model, auto_wrap_policy=ModuleWrapPolicy({Layer}), device_id=torch.device("cpu"))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    for step in range(10):
        ids = torch.randint(0, 96, (8, 16), generator=torch.Generator().manual_seed(2 * step + dist.get_rank()))
        loss = nn.functional.cross_entropy(model(ids), (ids[:, 0] > 48).long())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(step, loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
