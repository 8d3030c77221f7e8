"""DDP over two ranks; each rank logs the mean of the losses."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import GPT2Config, GPT2LMHeadModel


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=96, n_positions=32, n_embd=48, n_layer=2, n_head=4, use_cache=False, attn_pdrop=0.0)
    model = DDP(GPT2LMHeadModel(config))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(dist.get_rank())
    model.train()
    for step in range(12):
        ids = torch.randint(0, 96, (2, 24), generator=generator)
        loss = model.module(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if dist.get_rank() == 0:
            print(step, mean.item() / dist.get_world_size(), flush=True)


if __name__ == "__main__":
    main()
