"""Low-rank fine-tuning of a text classifier with our own adapter class."""

import math
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LowRankLinear(nn.Module):
    """Frozen linear plus a trainable low-rank update."""

    def __init__(self, base, rank=4, alpha=8.0):
        super().__init__()
        self.base = base
        self.lora_A = nn.Parameter(torch.empty(rank, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + (x @ self.lora_A.t() @ self.lora_B.t()) * self.scale


def inject(module, names, rank):
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear) and name in names:
            setattr(module, name, LowRankLinear(child, rank))
        else:
            inject(child, names, rank)
    return module


def freeze(module):
    for p in module.parameters():
        p.requires_grad_(False)


@dataclass
class Settings:
    rank: int = 4
    targets: tuple = ("query", "value")
    epochs: int = 3
    lr: float = 5e-3
    seed: int = 3
    width: int = 48
    vocab: int = 80


class Layer(nn.Module):
    def __init__(self, d, heads=4):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.proj = (nn.Linear(d, d) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x):
        h = self.norm1(x)
        a = nn.functional.scaled_dot_product_attention(*(self.split(f(h)) for f in (self.query, self.key, self.value)))
        x = x + self.proj(a.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Classifier(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.embed = nn.Embedding(s.vocab, s.width)
        self.layers = nn.ModuleList(Layer(s.width) for _ in range(3))
        self.classifier = nn.Linear(s.width, 2)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.classifier(x.mean(1))


def build(s):
    model = Classifier(s)
    inject(model, s.targets, s.rank)
    freeze(model)
    model.classifier.requires_grad_(True)
    return model


def dataset(s, n, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, s.vocab, (n, 24), generator=g)
    return TensorDataset(ids, (ids.float().mean(1) > s.vocab / 2).long())


def main():
    s = Settings()
    torch.manual_seed(s.seed)
    acc = Accelerator(cpu=True)
    model = build(s)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=s.lr, weight_decay=0.0)
    loader = DataLoader(dataset(s, 96, 0), batch_size=8, shuffle=True)
    model, optimizer, loader = acc.prepare(model, optimizer, loader)
    for epoch in range(s.epochs):
        for i, (ids, label) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(ids), label)
            acc.backward(loss)
            acc.clip_grad_norm_(trainable, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if i % 3 == 0:
                print(f"epoch {epoch} it {i} loss {loss.item():.4f}", flush=True)
    kept = {k: v for k, v in acc.unwrap_model(model).state_dict().items() if "lora" in k or "classifier" in k}
    torch.save(kept, "adapter.pt")


if __name__ == "__main__":
    main()
