"""Train, save, and resume weights into a model for evaluation; bf16-true with a fine learning rate."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Fine(L.LightningModule):
    def __init__(self, lr=1e-5):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(16, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))

    def training_step(self, batch, i):
        x, y = (t.to(self.dtype) for t in batch)
        loss = nn.functional.mse_loss(self.net(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


def main(precision):
    L.seed_everything(2)
    x = torch.randn(400, 16)
    dl = DataLoader(TensorDataset(x, x[:, :1] * 2), batch_size=10)
    t = L.Trainer(
        accelerator="cpu",
        precision=precision,
        max_epochs=1,
        logger=False,
        enable_progress_bar=False,
        default_root_dir="out",
    )
    t.fit(Fine(), dl)
    t.save_checkpoint("last.ckpt")
    t2 = L.Trainer(
        accelerator="cpu",
        precision=precision,
        max_epochs=2,
        logger=False,
        enable_progress_bar=False,
        default_root_dir="out",
    )
    t2.fit(Fine(), dl, ckpt_path="last.ckpt", weights_only=False)


main("bf16-mixed")
