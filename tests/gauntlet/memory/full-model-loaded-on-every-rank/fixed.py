"""Continue the training of a checkpoint under FSDP2 on two ranks."""

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

CHECKPOINT = "checkpoint"


def save_checkpoint():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=16384,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        use_cache=False,
    )
    LlamaForCausalLM(config).save_pretrained(CHECKPOINT)


dist.init_process_group("gloo")
if dist.get_rank() == 0:
    save_checkpoint()
dist.barrier()

weights = LlamaForCausalLM.from_pretrained(CHECKPOINT).state_dict() if dist.get_rank() == 0 else {}
config = LlamaConfig.from_pretrained(CHECKPOINT)
with torch.device("meta"):
    model = LlamaForCausalLM(config)
for block in model.model.layers:
    fully_shard(block)
fully_shard(model)
model.to_empty(device="cpu")
set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
model.model.rotary_emb = LlamaRotaryEmbedding(config)
del weights

model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(4):
    ids = torch.randint(0, 16384, (2, 32))
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(f"step {step} loss {loss.item():.3f}", flush=True)
dist.destroy_process_group()
