"""Fine-tunes a tiny GPT-2 with the Trainer."""

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Phrases(Dataset):
    def __init__(self, size=64, length=20):
        self.ids = (torch.arange(length) * 3 + torch.arange(size).unsqueeze(1)) % 48

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": self.ids[index]}


def main():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=48, n_positions=32, n_embd=32, n_layer=1, n_head=4, bos_token_id=0, eos_token_id=1)
    model = GPT2LMHeadModel(config)
    model.config.use_cache = False
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=8,
        per_device_train_batch_size=8,
        learning_rate=2e-3,
        logging_steps=4,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Phrases())
    trainer.train()


if __name__ == "__main__":
    main()
