"""DDP with gradient accumulation over 16 micro-batches; documents are classified by a model with a full vocabulary."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import GPT2Config, GPT2ForSequenceClassification

ACCUMULATE = 16


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=30000, n_positions=32, n_embd=256, n_layer=2, n_head=4, attn_pdrop=0.0)
    model = DDP(GPT2ForSequenceClassification(config))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(dist.get_rank())
    model.train()
    for micro in range(384):
        ids = torch.randint(0, 30000, (1, 24), generator=generator)
        loss = model(ids, labels=ids[:, 0] % 2).loss / ACCUMULATE
        loss.backward()
        if (micro + 1) % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
            if dist.get_rank() == 0:
                print(micro, loss.item() * ACCUMULATE, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
