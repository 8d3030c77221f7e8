"""A tied language model without Hugging Face; deferred initialisation and a checkpoint of an earlier run."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Config:
    vocab = 64
    dim = 48
    tie_word_embeddings = True


class LM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.dim)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(config.dim), nn.Linear(config.dim, config.dim), nn.GELU()) for _ in range(3)
        )
        self.lm_head = nn.Linear(config.dim, config.vocab, bias=False)
        self.tie()

    def tie(self):
        if self.config.tie_word_embeddings:
            self.lm_head.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = x + block(x)
        return self.lm_head(x)


torch.manual_seed(0)
earlier = LM(Config()).state_dict()
earlier.pop("lm_head.weight")

with torch.device("meta"):
    model = LM(Config())
model = model.to_empty(device="cpu")
nn.init.normal_(model.lm_head.weight, std=0.02)
print(model.load_state_dict(earlier, strict=False))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(10):
    ids = torch.randint(0, 64, (8, 17))
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
