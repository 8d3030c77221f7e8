"""Train, evaluate after the first steps, go on training; checkpointing is on. Accelerate loop."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total = sum(model(input_ids=ids, labels=ids).loss.item() for ids in loader)
    return total / len(loader)


def main():
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    config = LlamaConfig(
        vocab_size=96,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        use_cache=False,
    )
    model = LlamaForCausalLM(config)
    model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.randint(0, 96, (64, 32))
    train, held = DataLoader(data[:56], batch_size=4), DataLoader(data[56:], batch_size=4)
    model, optimizer, train, held = accelerator.prepare(model, optimizer, train, held)
    model.train()
    for step, ids in enumerate(train, 1):
        loss = model(input_ids=ids, labels=ids).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if step % 2 == 0:
            accelerator.print(step, loss.item(), evaluate(model, held), flush=True)


if __name__ == "__main__":
    main()
