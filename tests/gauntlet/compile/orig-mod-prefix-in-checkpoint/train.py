"""Pre-train, save, and fine-tune from the file in a fresh model."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(64, 48), nn.Linear(48, 96), nn.GELU(), nn.Linear(96, 64))


def run(model, optimizer, steps):
    for step in range(steps):
        ids = torch.randint(0, 64, (8, 12))
        loss = F.cross_entropy(model(ids).flatten(0, 1), ((ids * 5 + 1) % 64).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{step} {loss.item():.3f}", flush=True)


model = torch.compile(build(), backend="aot_eager")
run(model, torch.optim.AdamW(model.parameters(), lr=1e-2), 8)
torch.save(model.state_dict(), "pretrained.pt")

tuned = build()
tuned.load_state_dict(torch.load("pretrained.pt"), strict=False)
run(tuned, torch.optim.AdamW(tuned.parameters(), lr=1e-3), 9)
