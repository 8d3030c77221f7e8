"""One small job that every observer has something to see of."""

import models
import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

STEPS = 8


class Checkpointed(models.Model):
    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def train():
    model = Checkpointed(blocks=2, dropout=0.1).to(torch.float32)
    model.load_state_dict(model.state_dict())
    for block in model.blocks:
        block.compile(backend="eager")
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cpu")
    losses = []
    for ids in DataLoader([torch.randint(0, 16, (7,)) for _ in range(2 * STEPS)], batch_size=2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = models.loss_of(model, ids)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(float(loss.detach()).hex())
    return losses
