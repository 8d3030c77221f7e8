"""`use_attention`: twelve blocks compiled as whole graphs, over inputs of all kinds, and kernels that cannot serve.

Prints one line of JSON.
"""

import json
import warnings

import flash_attn.flash_attn_interface  # noqa: F401  as a job has it that bridges
import torch
from torch._dynamo.utils import counters
from transformers import LlamaConfig, LlamaForCausalLM

import trueup.attention
from trueup.attention.cpu.huggingface import allow_flash_attention_2

IDS = torch.arange(32).reshape(2, 16) % 23


def model(layers=12, dtype=torch.bfloat16, **changes):
    torch.manual_seed(0)
    config = {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "use_cache": False,
    }
    return LlamaForCausalLM._from_config(LlamaConfig(**config | changes), dtype=dtype).train()


def masked(*hidden):
    mask = torch.ones(2, 16, dtype=torch.long)
    mask[1, list(hidden)] = 0
    return {"input_ids": IDS, "attention_mask": mask}


def inputs():
    packed = trueup.attention.packed([IDS[0, :5], IDS[1, :11]])
    other = trueup.attention.packed([IDS[0, :3], IDS[0, 3:7], IDS[1, :9]])
    return {
        "one row": {"input_ids": IDS[:1]},
        "one row with positions": {"input_ids": packed["input_ids"], "position_ids": packed["position_ids"]},
        "packed": packed,
        "packed otherwise": other,
        "two rows": {"input_ids": IDS},
        "two rows in a mask of ones": masked(),
        "padded left": masked(0, 1, 2),
        "padded right": masked(14, 15),
        "padded in between": masked(4, 9),
    }


def logits(called, given):
    found = called(**given).logits
    mask = given.get("attention_mask")
    return found if mask is None else found * mask[..., None]


def graphs():
    """Graphs that each input added, and whether the logits are those of flash_attention_2 itself."""
    plain, own = model(), model()
    plain.set_attn_implementation("flash_attention_2")
    choice = trueup.attention.use_attention(own)
    for block in own.model.layers:
        block.compile(backend="eager", fullgraph=True)
    found = {}
    for name, given in inputs().items():
        counters.clear()
        same = torch.equal(logits(own, given), logits(plain, given))
        found[name] = [counters["stats"]["unique_graphs"], same]
    return {"choice": choice.actual, "implementation": own.config._attn_implementation, "inputs": found}


def refusals():
    wide = {"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 320}
    found = {}
    for name, changes in {"fp32": {"dtype": torch.float32}, "wide": wide}.items():
        made = model(layers=1, **changes)
        try:
            trueup.attention.use_attention(made)
            error = ""
        except ValueError as told:
            error = str(told)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", trueup.attention.FallbackWarning)
            choice = trueup.attention.use_attention(made, fallback=True)
        found[name] = {
            "error": error,
            "choice": [choice.requested, choice.actual, choice.reason],
            "implementation": made.config._attn_implementation,
            "warned": [str(each.message) for each in caught if each.category is trueup.attention.FallbackWarning],
        }
        made(input_ids=IDS).logits.sum().backward()
    return found


def ordered():
    """By an order as it was measured."""
    choice = trueup.attention.use_attention(
        model(layers=1, dtype=torch.float32), fallback=True, order=["eager", "sdpa-flash-cpu"]
    )
    return choice.actual


def main():
    allow_flash_attention_2()
    trueup.attention.bridge_libraries()
    names = trueup.attention.register_attention()
    print(json.dumps({"names": names, "graphs": graphs(), "refusals": refusals(), "ordered": ordered()}), flush=True)


if __name__ == "__main__":
    main()
