"""A small Llama of transformers in bf16, forward and backward, with flash_attention_2 on CPU beside sdpa and eager.

One line of JSON; errors are of the gradients, against eager attention in float32.
"""

import json
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils import is_torch_cuda_available

from trueup.attention.cpu.huggingface import allow_flash_attention_2

CONFIG = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


def model(implementation: str, dtype: torch.dtype = torch.bfloat16) -> LlamaForCausalLM:
    return LlamaForCausalLM._from_config(LlamaConfig(**CONFIG), attn_implementation=implementation, dtype=dtype)


def gradients(trained: LlamaForCausalLM, inputs: dict) -> torch.Tensor:
    trained.zero_grad()
    trained(**inputs).loss.backward()
    return torch.cat([p.grad.flatten().float() for p in trained.parameters()])


try:
    model("flash_attention_2")
    refused = ""
except ImportError as error:
    refused = str(error)
allow_flash_attention_2()
allow_flash_attention_2()  # twice is once

torch.manual_seed(0)
exact = model("eager", torch.float32)
ids = torch.randint(0, 97, (2, 40))
mask = torch.ones_like(ids)
mask[1, 25:] = 0
kinds = {
    "plain": {"input_ids": ids, "labels": ids},
    "padded": {"input_ids": ids, "labels": ids.masked_fill(mask == 0, -100), "attention_mask": mask},
}
errors: dict[str, dict[str, float]] = {kind: {} for kind in kinds}
for implementation in ("flash_attention_2", "sdpa", "eager"):
    trained = model(implementation)
    trained.load_state_dict(exact.state_dict())
    for kind, inputs in kinds.items():
        expected = gradients(exact, inputs)
        errors[kind][implementation] = ((gradients(trained, inputs) - expected).norm() / expected.norm()).item()

import flash_attn_2_cuda  # noqa: E402

json.dump(
    {
        "refused before": refused,
        "kernel": flash_attn_2_cuda.stand_in_for,
        "errors": errors,
        "cuda taken for available": is_torch_cuda_available(),
    },
    sys.stdout,
)
