"""FSDP1 with peft's wrap policy; the class name stands in the environment, as accelerate sets it."""

import os

import torch
import torch.distributed as dist
from peft import LoraConfig, get_peft_model
from peft.utils.other import fsdp_auto_wrap_policy
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from transformers import GPT2Config, GPT2LMHeadModel

os.environ["FSDP_TRANSFORMER_CLS_TO_WRAP"] = "GPT2Block"


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=96, n_positions=32, n_embd=48, n_layer=3, n_head=4, use_cache=False, attn_pdrop=0.0)
    model = get_peft_model(GPT2LMHeadModel(config), LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True))
    model = FSDP(model, auto_wrap_policy=fsdp_auto_wrap_policy(model), device_id=torch.device("cpu"))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    model.train()
    for step in range(8):
        ids = torch.randint(0, 96, (2, 24))
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
