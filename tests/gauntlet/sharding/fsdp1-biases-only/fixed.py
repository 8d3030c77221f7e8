"""Tuning of the biases of an encoder, one FSDP1 unit per layer."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import ModuleWrapPolicy


class Encoder(nn.Module):
    def __init__(self, vocabulary=100, width=48, depth=3):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.trunk = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True) for _ in range(depth)
        )
        self.head = nn.Linear(width, 2)

    def forward(self, ids):
        x = self.tokens(ids)
        for layer in self.trunk:
            x = layer(x)
        return self.head(x[:, 0])


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Encoder()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.endswith("bias"))
    policy = ModuleWrapPolicy({nn.TransformerEncoderLayer})
    model = FSDP(model, auto_wrap_policy=policy, use_orig_params=True, device_id=torch.device("cpu"))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    for step in range(10):
        ids = torch.randint(0, 100, (8, 16), generator=torch.Generator().manual_seed(2 * step + dist.get_rank()))
        loss = nn.functional.cross_entropy(model(ids), (ids[:, 0] > 50).long())
        loss.backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(step, loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
