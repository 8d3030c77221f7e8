"""Whole-model compile of a classifier that looks for padding in each batch."""

import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, dim=48, depth=3):
        super().__init__()
        self.embed = nn.Embedding(60, dim, padding_idx=0)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(dim, 4, 96, 0.0, batch_first=True) for _ in range(depth))
        self.head = nn.Linear(dim, 3)

    def forward(self, ids):
        x = self.embed(ids)
        padding = ids == 0
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=padding)
        return self.head(x.mean(1))


def main():
    torch.manual_seed(0)
    model = Encoder()
    train_model = torch.compile(model, backend="eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(12):
        ids = torch.randint(1, 60, (8, 20))
        ids[:, 15:] = 0
        loss = nn.functional.cross_entropy(train_model(ids), ids[:, 0] % 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, f"{loss:.3f}", flush=True)


main()
