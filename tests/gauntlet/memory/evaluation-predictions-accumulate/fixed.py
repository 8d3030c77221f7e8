"""Fine-tune a small Llama with the Trainer and measure token accuracy on held-out rows after each epoch."""

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

VOCABULARY, LENGTH = 16384, 64


class Rows(Dataset):
    def __init__(self, number, seed):
        self.ids = torch.randint(0, VOCABULARY, (number, LENGTH), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": self.ids[index]}


def most_likely(logits, labels):
    return logits.argmax(-1)


def token_accuracy(prediction):
    predicted = prediction.predictions
    return {"accuracy": float((predicted[:, :-1] == prediction.label_ids[:, 1:]).mean())}


torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        use_cache=False,
    )
)
arguments = TrainingArguments(
    output_dir="out",
    num_train_epochs=1,
    per_device_train_batch_size=4,
    per_device_eval_batch_size=8,
    eval_strategy="epoch",
    save_strategy="no",
    logging_steps=4,
    report_to=[],
    use_cpu=True,
)
trainer = Trainer(
    model=model,
    args=arguments,
    train_dataset=Rows(32, seed=1),
    eval_dataset=Rows(96, seed=2),
    compute_metrics=token_accuracy,
    preprocess_logits_for_metrics=most_likely,
)
trainer.train()
