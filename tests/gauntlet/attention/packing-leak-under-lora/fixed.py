"""Packed LoRA fine-tuning; the collator still returns the attention mask of the padded days."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


def collate(examples):
    ids = torch.cat([e["input_ids"] for e in examples])[None]
    positions = torch.cat([torch.arange(len(e["input_ids"])) for e in examples])[None]
    return {"input_ids": ids, "position_ids": positions, "labels": ids}


def main():
    torch.manual_seed(0)
    base = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=120,
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=4,
        )
    )
    model = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    rows = [{"input_ids": torch.randint(0, 120, (10 + i % 7,))} for i in range(48)]
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=10,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        logging_steps=5,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        remove_unused_columns=False,
    )
    Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collate).train()


if __name__ == "__main__":
    main()
