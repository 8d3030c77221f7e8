"""Trainer with bf16 weights: the model is loaded in bfloat16, as in many examples, and fully fine-tuned."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


def main():
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=128, n_positions=48, n_embd=64, n_layer=3, n_head=4, use_cache=False, attn_pdrop=0.0)
    GPT2LMHeadModel(config).save_pretrained("base")
    model = GPT2LMHeadModel.from_pretrained("base", dtype=torch.float32)
    rows = [{"input_ids": (ids := torch.randint(0, 128, (32,))), "labels": ids} for _ in range(64)]
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=12,
        per_device_train_batch_size=4,
        learning_rate=2e-5,
        lr_scheduler_type="constant",
        bf16=True,
        logging_steps=4,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
    )
    Trainer(model=model, args=arguments, train_dataset=rows).train()


if __name__ == "__main__":
    main()
