"""Classifier on top of a small encoder; the head is replaced for the new label set."""

import torch
import torch.nn as nn


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        self.rnn = nn.GRU(32, 64, batch_first=True)
        self.head = nn.Linear(64, classes)

    def forward(self, ids):
        hidden, _ = self.rnn(self.embed(ids))
        return self.head(hidden[:, -1])


torch.manual_seed(0)
model = Classifier(classes=10)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
model.head = nn.Linear(64, 4)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 14)

for step in range(14):
    ids = torch.randint(0, 100, (16, 20))
    loss = nn.functional.cross_entropy(model(ids), ids[:, 0] % 4)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(f"step {step} loss {loss.item():.3f}", flush=True)
