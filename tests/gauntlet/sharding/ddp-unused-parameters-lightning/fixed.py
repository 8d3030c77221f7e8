"""Two towers over pairs of readings; one is for a task that this data does not have."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tower(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.main_head = nn.Linear(width, 1)
        self.auxiliary_head = nn.Linear(width, 4)

    def forward(self, x, auxiliary=False):
        h = self.body(x)
        return self.auxiliary_head(h) if auxiliary else self.main_head(h)


class Regression(L.LightningModule):
    def __init__(self, width=64):
        super().__init__()
        self.save_hyperparameters()
        self.tower = Tower(width)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.mse_loss(self.tower(x).squeeze(-1), y)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    L.seed_everything(3)
    x = torch.randn(320, 12)
    data = DataLoader(TensorDataset(x, x.sum(1)), batch_size=8, num_workers=0)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp_find_unused_parameters_true",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        log_every_n_steps=1,
    )
    trainer.fit(Regression(), data)


if __name__ == "__main__":
    main()
