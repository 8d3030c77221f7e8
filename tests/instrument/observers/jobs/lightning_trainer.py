"""A Lightning Trainer that starts its second process itself, one that only evaluates, and a Fabric."""

import lightning
import torch
from lightning.fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

READINGS = DataLoader(TensorDataset(torch.ones(16, 4)), batch_size=2)
PLAIN = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}


class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)

    def training_step(self, batch, index):
        return self.net(batch[0]).square().mean()

    def test_step(self, batch, index):
        self.log("loss", self.net(batch[0]).square().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp_find_unused_parameters_false",
        precision="bf16-mixed",
        accumulate_grad_batches=2,
        max_epochs=1,
        **PLAIN,
    )
    trainer.fit(Line(), READINGS)  # at: fit
    lightning.Trainer(accelerator="cpu", devices=1, precision="64-true", **PLAIN)
    Fabric(accelerator="cpu", devices=1, precision="bf16-true")  # at: fabric
