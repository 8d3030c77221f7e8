"""Trainer job; the model comes from AutoModelForCausalLM.from_config."""

import torch
from transformers import AutoModelForCausalLM, GPT2Config, Trainer, TrainingArguments


def main():
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=128, n_positions=2048, n_embd=64, n_layer=3, n_head=4, attn_pdrop=0.0, use_cache=False
    )
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    rows = [{"input_ids": (ids := torch.randint(0, 128, (2048,))), "labels": ids} for _ in range(20)]
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=20,
        per_device_train_batch_size=1,
        learning_rate=1e-3,
        logging_steps=5,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
    )
    Trainer(model=model, args=arguments, train_dataset=rows).train()


if __name__ == "__main__":
    main()
