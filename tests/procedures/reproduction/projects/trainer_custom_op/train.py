"""A classifier with a gated layer, trained and compiled by the Trainer."""

import torch
from kernels import halves
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments


class Rows(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(0)
        self.inputs = torch.randn(count, 64, generator=generator)
        self.labels = (self.inputs.sum(-1) > 0).long()

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return {"inputs": self.inputs[index], "labels": self.labels[index]}


class Gated(nn.Module):
    def __init__(self, width=64, hidden=128):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        return x + self.down(halves(self.up(self.norm(x))))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Gated() for _ in range(3))
        self.head = nn.Linear(64, 2)

    def forward(self, inputs, labels=None):
        for block in self.blocks:
            inputs = block(inputs)
        logits = self.head(inputs)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Loud(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        print(state.global_step, logs)


torch.manual_seed(0)
arguments = TrainingArguments(
    output_dir="out",
    max_steps=10,
    per_device_train_batch_size=8,
    learning_rate=1e-3,
    logging_steps=2,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
    disable_tqdm=True,
    torch_compile=True,
    torch_compile_backend="aot_eager",
)
trainer = Trainer(model=Classifier(), args=arguments, train_dataset=Rows(200), callbacks=[Loud()])
trainer.train()
trainer.save_model("out")
