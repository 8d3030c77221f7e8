"""DDP with gradient accumulation over 4 micro-batches."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import GPT2Config, GPT2LMHeadModel

ACCUMULATE = 4


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=96, n_positions=32, n_embd=48, n_layer=2, n_head=4, use_cache=False, attn_pdrop=0.0)
    model = DDP(GPT2LMHeadModel(config))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(dist.get_rank())
    model.train()
    for micro in range(40):
        ids = torch.randint(0, 96, (2, 24), generator=generator)
        loss = model(ids, labels=ids).loss / ACCUMULATE
        loss.backward()
        if (micro + 1) % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
            if dist.get_rank() == 0:
                print(micro, loss.item() * ACCUMULATE, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
