"""Second stage: load the adapter of the first stage and train it further with Trainer."""

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


def base():
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=64, n_embd=48, n_layer=3, n_head=4, use_cache=False))


def main():
    first = get_peft_model(base(), LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True))
    first.save_pretrained("stage1")
    del first

    model = PeftModel.from_pretrained(base(), "stage1")
    for parameter in model.base_model.model.transformer.wte.parameters():
        parameter.requires_grad_(True)
    rows = [{"input_ids": (ids := torch.randint(0, 128, (24,))), "labels": ids} for _ in range(40)]
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=10,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        logging_steps=5,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
    )
    Trainer(model=model, args=arguments, train_dataset=rows).train()


if __name__ == "__main__":
    main()
