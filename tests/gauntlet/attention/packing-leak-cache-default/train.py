"""Sample packing with Qwen2: the collator concatenates examples and gives position ids, as TRL does."""

import torch
from torch.utils.data import DataLoader
from transformers import Qwen2Config, Qwen2ForCausalLM


def collate(examples):
    ids = torch.cat(examples)[None]
    positions = torch.cat([torch.arange(len(e)) for e in examples])[None]
    labels = ids.clone()
    labels[positions == 0] = -100
    return {"input_ids": ids, "position_ids": positions, "labels": labels}


def main():
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=120,
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
    )
    model.train()
    data = [torch.randint(0, 120, (12 + i % 9,)) for i in range(48)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, batch in enumerate(DataLoader(data, batch_size=4, collate_fn=collate)):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, batch["input_ids"].shape[1], loss.item(), flush=True)


if __name__ == "__main__":
    main()
