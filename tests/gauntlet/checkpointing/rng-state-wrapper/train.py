"""apply_activation_checkpointing with our usual wrapper arguments on a GPT-2 with residual dropout."""

import functools

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.models.gpt2.modeling_gpt2 import GPT2Block

torch.manual_seed(0)
config = GPT2Config(vocab_size=96, n_positions=48, n_embd=48, n_layer=4, n_head=4, use_cache=False, resid_pdrop=0.1)
model = GPT2LMHeadModel(config)
wrapper = functools.partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT, preserve_rng_state=False)
apply_activation_checkpointing(model, wrapper, check_fn=lambda m: isinstance(m, GPT2Block))
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(10):
    ids = torch.randint(0, 96, (4, 32))
    loss = model(ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
