"""Train a small Llama on the topics of Python's own help: FSDP2 over two ranks, each block compiled.

Launch it with `torchrun --nproc-per-node 2 examples/finetune.py`.
"""

import argparse
import random
import time
from pydoc_data.topics import topics

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from transformers import LlamaConfig, LlamaForCausalLM, get_cosine_schedule_with_warmup


class Topics(Dataset):
    """Paragraphs of the help texts as bytes, the shortest and the longest left out."""

    def __init__(self, longest: int):
        paragraphs = [p for text in topics.values() for p in text.split("\n\n")]
        self.texts = [p.encode()[:longest] for p in paragraphs if len(p) >= 48]
        random.Random(0).shuffle(self.texts)

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return torch.tensor(list(self.texts[index]))


def collate(rows):
    ids = pad_sequence(rows, batch_first=True)
    labels = pad_sequence(rows, batch_first=True, padding_value=-100)
    return {"input_ids": ids, "attention_mask": (labels != -100).long(), "labels": labels}


def build_model(blocks: int) -> LlamaForCausalLM:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=256,
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=blocks,
            num_attention_heads=4,
            num_key_value_heads=4,
        )
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--longest", type=int, default=400)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = build_model(args.blocks)
    model.train()
    for block in model.model.layers:
        block.compile()
        fully_shard(block)
    fully_shard(model)

    data = Topics(args.longest)
    loader = DataLoader(data, args.batch_size, sampler=DistributedSampler(data), collate_fn=collate)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 4, args.steps)

    start = time.time()
    for step, batch in enumerate(loader, 1):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0 and step % 4 == 0:
            print(f"step {step} loss {loss.item():.3f} length {batch['input_ids'].shape[1]} {time.time() - start:.0f}s")
        if step == args.steps:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
