"""A small language model in bfloat16, by autocast or by a cast, with a loader to train and one to evaluate."""

import json
import sys

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.utils.data import DataLoader

HOW = sys.argv[1] if len(sys.argv) > 1 else "autocast"
WIDTH = 16


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, WIDTH // 2)).permute(2, 0, 3, 1, 4)
        return self.out(scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.norm = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x, mask):
        x = x + self.attention(self.norm(x), mask)
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, 32)

    def forward(self, input_ids, mask):
        x = self.embed(input_ids)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)


generator = torch.Generator().manual_seed(0)


def batch(number):
    ids = torch.randint(0, 32, (2, 12), generator=generator)
    return {"input_ids": ids, "mask": torch.ones(2, 1, 12, 12, dtype=torch.bool).tril(), "number": number}


training, evaluation = [batch(number) for number in range(4)], [batch(number) for number in range(2)]
torch.manual_seed(0)
model = Model()
if HOW == "cast":
    model.to(torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
facts = {"losses": [], "fed": [], "shapes": [], "evaluated": []}
for each in DataLoader(training, batch_size=None):
    with torch.autocast("cpu", torch.bfloat16, enabled=HOW == "autocast"):
        logits = model(each["input_ids"], each["mask"])
    loss = cross_entropy(logits.float().flatten(0, 1), each["input_ids"].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    facts["losses"].append(loss.item())
    facts["fed"].append(each.pop("number"))
    facts["shapes"].append([*each["input_ids"].shape, each["mask"].shape[-1]])
with torch.no_grad():
    for each in DataLoader(evaluation, batch_size=None):
        facts["evaluated"].append(each["number"])
print(json.dumps(facts))
