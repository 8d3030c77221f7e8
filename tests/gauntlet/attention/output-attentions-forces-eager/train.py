"""Trains a small GPT-2 with the Trainer; a notebook that was pasted in switches attention weights on for its plots."""

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Counting(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = (torch.arange(20) + index) % 40
        return {"input_ids": ids, "labels": ids}


def get_model():
    config = GPT2Config(
        vocab_size=40, n_positions=32, n_embd=32, n_layer=2, n_head=4, attn_pdrop=0.0, bos_token_id=0, eos_token_id=1
    )
    model = GPT2LMHeadModel._from_config(config, attn_implementation="sdpa")
    model.config.use_cache = False
    model.config.output_attentions = True
    return model


def main():
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=15,
        per_device_train_batch_size=8,
        learning_rate=3e-3,
        logging_steps=5,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
    )
    Trainer(model=get_model(), args=arguments, train_dataset=Counting()).train()


if __name__ == "__main__":
    main()
