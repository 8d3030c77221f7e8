"""GPT-2 style model under accelerate; every block is replaced by its compiled version."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel


def collate(rows):
    length = max(len(row) for row in rows)
    return torch.stack([torch.nn.functional.pad(row, (0, length - len(row)), value=7) for row in rows])


def corpus(n):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(12, 40, (n,), generator=generator)
    return [torch.randint(0, 200, (int(k),), generator=generator) for k in lengths]


def main():
    torch.manual_seed(0)
    torch._dynamo.config.recompile_limit = 64  # it warned that 8 were reached
    accelerator = Accelerator(cpu=True)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=200, n_positions=64, n_embd=48, n_layer=16, n_head=4))
    model.transformer.h = torch.nn.ModuleList(torch.compile(b, backend="aot_eager") for b in model.transformer.h)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(corpus(36), batch_size=3, collate_fn=collate)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    for step, ids in enumerate(loader, 1):
        loss = model(ids, labels=ids).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        print(step, tuple(ids.shape), f"{loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
