"""accelerate job with a compile backend; sequence lengths vary from batch to batch."""

import os

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM


def collate(rows):
    longest = max(map(len, rows))
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    labels = torch.full_like(ids, -100)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        labels[i, : len(row)] = row
    return {"input_ids": ids, "labels": labels}


def main():
    os.environ.pop("ACCELERATE_DYNAMO_USE_DYNAMIC", None)
    torch._dynamo.config.recompile_limit = 64  # it warned that 8 were reached
    accelerator = Accelerator()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=150,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        use_cache=False,
    )
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = [torch.randint(1, 150, (10 + 3 * (i % 23),)) for i in range(44)]
    loader = DataLoader(data, batch_size=2, collate_fn=collate)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    for step, batch in enumerate(loader):
        loss = model(**batch).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.print(step, batch["input_ids"].shape[1], round(loss.item(), 3), flush=True)


if __name__ == "__main__":
    main()
