"""Attention and activation checkpointing."""

from healthy_record import event, graph_break, kernel, merged
from rule_case import negative, positive

GPU = {"environment": {"devices": [{"name": "NVIDIA A100", "kind": "cuda"}]}}
ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"


def attention(*kernels, **changes):
    fused = sum(each["share"] for each in kernels if "math" not in each["name"] and each["name"] != "eager")
    return {"actual": {"attention": {"kernels": list(kernels), "fused_fraction": fused, **changes}}}


def implementation(name):
    return {"requested": {"attention": {"implementation": name}}}


def config(**detail):
    return event("attention", "config", "LlamaForCausalLM", **detail)


def checkpointing(**changes):
    return {"actual": {"checkpointing": changes}}


OLD = {"environment": {"packages": {"transformers": "4.50.1"}}}


def measured(verdict, change=None, **changes):
    """What `--probe packing` found."""
    found = {
        "change": change,
        "scale": 2.0,
        "noise": 0.0,
        "source": 1,
        "target": 2,
        "row": 1,
        "seen_in": "position_ids",
    }
    return {"verdict": verdict, **found, **changes}


CASES = [
    positive(
        "attention/eager-implementation-requested",
        "a leftover in the configuration",
        implementation("eager") | attention(kernel("eager"), requested="eager"),
    ),
    negative(
        "attention/eager-implementation-requested",
        "attention weights are wanted",
        implementation("eager")
        | attention(kernel("eager"), requested="eager")
        | {"order+": [config(output_attentions=True)]},
    ),
    positive(
        "attention/kernel-math-fallback",
        "on a GPU",
        GPU | attention(kernel("sdpa-math"), masks={}),
    ),
    positive(
        "attention/kernel-math-fallback",
        "on a CPU, with masks that forced it",
        merged(attention(kernel("sdpa-math"), masks={"other": 12}), checkpointing(random_ops=0)),
        severity="note",
        confidence="likely",
        also=("note attention/explicit-mask-deselects-flash",),
    ),
    positive(
        "attention/kernel-math-fallback",
        "flash was asked for",
        implementation("flash_attention_2") | attention(kernel("sdpa-math"), requested="flash_attention_2"),
    ),
    negative(
        "attention/kernel-math-fallback",
        "on a CPU the math path is normal",
        attention(kernel("sdpa-math"), masks={"none": 12}),
    ),
    positive(
        "attention/kernel-math-fallback",
        "on a CPU with dropout, for which it has no other kernel",
        attention(kernel("sdpa-math"), masks={}, sdpa_calls={"no mask causal dropout": 12}),
        severity="note",
        confidence="likely",
    ),
    positive(
        "attention/kernel-math-fallback",
        "on a CPU with inputs that fused kernels decline",
        attention(kernel("sdpa-math"), masks={}, sdpa_calls={"no mask causal gqa 3d": 12}),
        severity="note",
        confidence="likely",
    ),
    positive(
        "attention/kernel-math-fallback",
        "on a CPU with values of another size, as in latent attention",
        attention(kernel("sdpa-math"), masks={}, sdpa_calls={"no mask causal sizes": 12}),
        severity="note",
        confidence="likely",
    ),
    positive(
        "attention/kernel-math-fallback",
        "on a CPU with inputs whose last dimension has another stride: nothing else explains it",
        attention(kernel("sdpa-math"), masks={}, sdpa_calls={"no mask causal": 12}, toggles={"flash": True})
        | {"environment": {"devices": ["cpu"]}},
        severity="note",
        confidence="likely",
    ),
    negative(
        "attention/kernel-math-fallback",
        "on another device, of whose fused kernels nothing is known",
        attention(kernel("sdpa-math"), masks={}, sdpa_calls={"no mask causal": 12}, toggles={"flash": True})
        | {"environment": {"devices": ["mps"]}},
    ),
    positive(
        "attention/kernel-math-fallback",
        "a context asked for a fused kernel, and where that failed another one asked for math",
        attention(kernel("sdpa-math"), masks={}, sdpa_calls={"no mask causal": 12})
        | {"requested": {"attention": {"backends": ["EFFICIENT_ATTENTION", "MATH"]}}},
    ),
    negative(
        "attention/kernel-math-fallback",
        "on a CPU, where a context allows fused kernels and math",
        attention(kernel("sdpa-math"), masks={}, sdpa_calls={"no mask causal": 12})
        | {"requested": {"attention": {"backends": ["FLASH_ATTENTION, MATH"]}}},
    ),
    negative(
        "attention/kernel-math-fallback",
        "values of another size, which a kernel took",
        attention(kernel("sdpa-flash-cpu"), masks={}, sdpa_calls={"no mask causal sizes": 12}),
    ),
    negative(
        "attention/kernel-math-fallback",
        "the code restricts SDPA to math",
        GPU | attention(kernel("sdpa-math")) | {"requested": {"attention": {"backends": ["MATH"]}}},
    ),
    positive(
        "attention/explicit-mask-deselects-flash",
        "an all-ones mask on a GPU",
        GPU | attention(kernel("sdpa-mem-efficient"), masks={"all-ones": 12}),
        severity="note",
        confidence="likely",
    ),
    negative(
        "attention/explicit-mask-deselects-flash",
        "the flash kernel for CPUs takes masks",
        attention(kernel("sdpa-flash-cpu"), masks={"all-ones": 12}),
    ),
    positive(
        "attention/sdpa-backend-disabled-globally",
        "switched off by an import, math runs",
        GPU
        | attention(
            kernel("sdpa-math"), masks={"none": 12}, toggles={"flash": False, "mem_efficient": False, "math": True}
        ),
        also=("warning attention/kernel-math-fallback",),
    ),
    negative(
        "attention/sdpa-backend-disabled-globally",
        "inside of the code's own sdpa_kernel",
        GPU
        | attention(kernel("sdpa-flash"), toggles={"flash": True, "mem_efficient": False, "math": False})
        | {"requested": {"attention": {"backends": ["FLASH_ATTENTION"]}}},
    ),
    positive(
        "attention/output-attentions-forces-eager",
        "transformers 4.50",
        OLD | attention(kernel("eager")) | {"order+": [config(output_attentions=True)]},
    ),
    negative(
        "attention/output-attentions-forces-eager",
        "transformers 5 keeps the fused kernel",
        {"order+": [config(output_attentions=True)]},
    ),
    positive(
        "attention/padding-mask-ignored",
        "an encoder that applies the mask to its output only",
        attention(kernel("sdpa-flash-cpu"), padding="right", padding_seen_in="mask", unmasked_padded={"no mask": 12}),
        severity="error",
        confidence="likely",
    ),
    positive(
        "attention/padding-mask-ignored",
        "a causal decoder with padding before the tokens",
        attention(
            kernel("sdpa-flash-cpu"), padding="left", padding_seen_in="mask", unmasked_padded={"no mask causal": 12}
        ),
        severity="error",
        confidence="likely",
    ),
    positive(
        "attention/padding-mask-ignored",
        "told from the token ids only",
        attention(
            kernel("sdpa-flash-cpu"), padding="right", padding_seen_in="token ids", unmasked_padded={"no mask": 12}
        ),
        severity="note",
        confidence="possible",
    ),
    negative(
        "attention/padding-mask-ignored",
        "a causal decoder with padding behind the tokens",
        attention(
            kernel("sdpa-flash-cpu"), padding="right", padding_seen_in="mask", unmasked_padded={"no mask causal": 12}
        ),
    ),
    negative(
        "attention/padding-mask-ignored",
        "padding that is masked",
        attention(kernel("sdpa-flash-cpu"), padding="right", padding_seen_in="mask", unmasked_padded={}),
    ),
    positive(
        "attention/packing-leak-mask-or-cache-present",
        "an all-ones mask from the collator",
        attention(kernel("sdpa-flash-cpu"), packed=True, masks={"all-ones": 3}),
        severity="error",
        confidence="likely",
    ),
    positive(
        "attention/packing-leak-mask-or-cache-present",
        "an all-ones mask that the model drops for plain causal attention",
        attention(kernel("sdpa-flash-cpu"), packed=True, masks={"none": 3}, given_mask="all-ones"),
        severity="error",
        confidence="likely",
    ),
    positive(
        "attention/packing-leak-mask-or-cache-present",
        "the default cache",
        attention(kernel("sdpa-flash-cpu"), packed=True, masks={"none": 3}, cache=True),
        severity="error",
        confidence="likely",
    ),
    positive(
        "attention/packing-leak-mask-or-cache-present",
        "a padding mask, since the last row is not full",
        attention(kernel("sdpa-flash-cpu"), requested="sdpa", packed=True, masks={"other": 3}, given_mask="padding"),
        severity="error",
        confidence="likely",
    ),
    negative(
        "attention/packing-leak-mask-or-cache-present",
        "a block mask that was made although the model was given a mask of ones",
        attention(kernel("sdpa-flash-cpu"), requested="sdpa", packed=True, masks={"other": 3}, given_mask="all-ones"),
    ),
    negative(
        "attention/packing-leak-mask-or-cache-present",
        "an own model that makes a block mask of positions and a padding mask",
        attention(kernel("sdpa-flash-cpu"), requested=None, packed=True, masks={"other": 3}, given_mask="padding"),
    ),
    negative(
        "attention/packing-leak-mask-or-cache-present",
        "position ids that do not restart",
        attention(kernel("sdpa-flash-cpu"), packed=False, masks={"all-ones": 3}, cache=True),
    ),
    negative(
        "attention/packing-leak-mask-or-cache-present",
        "neither mask nor cache: transformers builds the block mask",
        attention(kernel("sdpa-flash-cpu"), packed=True, masks={"none": 3}),
    ),
    positive(
        "attention/packing-leak-mask-or-cache-present",
        "a leak that was measured, and the cache that explains it",
        attention(kernel("sdpa-flash-cpu"), packed=True, masks={"none": 3}, cache=True, leakage=measured("leak", 0.4)),
        severity="error",
        confidence="established",
        also=("error attention/packing-without-varlen-attention",),
    ),
    negative(
        "attention/packing-leak-mask-or-cache-present",
        "a cache, and a measured 0.0",
        attention(kernel("sdpa-flash-cpu"), packed=True, masks={"none": 3}, cache=True, leakage=measured("none", 0.0)),
    ),
    negative(
        "attention/packing-leak-mask-or-cache-present",
        "no more than rounding",
        attention(kernel("sdpa-math"), packed=True, masks={"none": 3}, cache=True, leakage=measured("rounding", 1e-6)),
    ),
    positive(
        "attention/packing-leak-mask-or-cache-present",
        "a probe that could not be made takes nothing back",
        attention(kernel("sdpa-math"), packed=True, masks={"none": 3}, cache=True, leakage=measured("not probed")),
        severity="error",
        confidence="likely",
    ),
    positive(
        "attention/packing-without-varlen-attention",
        "a leak that was measured, whatever the cause",
        attention(kernel("flash-attn-2-varlen"), boundaries=True, leakage=measured("leak", 0.4, other_rows=0.0)),
        severity="error",
        confidence="established",
    ),
    negative(
        "attention/packing-without-varlen-attention",
        "other rows move as well: batch statistics, not attention",
        attention(kernel("sdpa-flash-cpu"), sdpa_calls={"masked": 12}, leakage=measured("leak", 0.4, other_rows=0.3)),
    ),
    negative(
        "attention/packing-without-varlen-attention",
        "no mask in the call, and a measured 0.0",
        attention(
            kernel("sdpa-flash-cpu"),
            packed=True,
            masks={},
            sdpa_calls={"no mask causal": 12},
            leakage=measured("none", 0.0),
        ),
    ),
    positive(
        "attention/packing-without-varlen-attention",
        "transformers 4.50 builds no block mask",
        OLD | attention(kernel("sdpa-flash-cpu"), packed=True, masks={"none": 3}),
        severity="error",
        confidence="likely",
    ),
    positive(
        "attention/packing-without-varlen-attention",
        "a model of one's own whose attention has no mask",
        attention(kernel("sdpa-flash-cpu"), packed=True, masks={}, sdpa_calls={"no mask causal": 12}),
        severity="error",
        confidence="likely",
    ),
    negative(
        "attention/packing-without-varlen-attention",
        "each call has a mask",
        attention(kernel("sdpa-flash-cpu"), packed=True, masks={}, sdpa_calls={"masked": 12}),
    ),
    negative(
        "attention/packing-without-varlen-attention",
        "boundaries were given to a varlen kernel",
        OLD | attention(kernel("flash-attn-2-varlen"), packed=True, boundaries=True),
    ),
    positive(
        "checkpointing/compiled-region-falls-back-to-eager",
        "item() in a checkpointed block",
        {
            "actual": {
                "compile": {
                    "breaks": [graph_break(ITEM, count=12, inside="torch.utils.checkpoint.checkpoint")],
                    "fraction": 0.0,
                    "blocks": {"compiled": 0},
                    "frames": 12,
                    "graphs": 0,
                }
            }
        },
        also=("warning compile/scalar-extraction-graph-break",),
    ),
    positive(
        "checkpointing/compiled-region-falls-back-to-eager",
        "item() in an operator that Dynamo does not name, beside checkpoints that ran eager",
        {
            "actual": {
                "compile": {"breaks": [graph_break(ITEM, inside="a higher-order operator")]},
                "checkpointing": {"calls": 12},
            }
        },
        also=("note compile/scalar-extraction-graph-break",),
    ),
    negative(
        "checkpointing/compiled-region-falls-back-to-eager",
        "zero graphs because compile was never applied",
        {"actual": {"compile": {"fraction": 0.0, "blocks": {"compiled": 0}, "frames": 0, "graphs": 0, "breaks": []}}},
        instead=("warning compile/requested-and-not-applied",),
    ),
    positive("checkpointing/reentrant-variant-used", "beside compile and adapters", checkpointing(reentrant=True)),
    negative(
        "checkpointing/reentrant-variant-used",
        "ZeRO-3 with frozen parameters needs it",
        {"actual": {"checkpointing": {"reentrant": True}, "sharding": {"strategy": "DeepSpeed ZeRO-3"}}},
    ),
    positive(
        "checkpointing/inactive-in-eval-mode",
        "no model.train()",
        {
            "actual": {
                "checkpointing": {"fraction": 0.0, "calls": 0},
                "compile": {"checkpoints_in_graph": 0},
                "training": {"training_mode": False},
            }
        },
    ),
    positive(
        "checkpointing/inactive-in-eval-mode",
        "checkpoints by hand, until an evaluation left the model in eval mode",
        {
            "order": [],
            "requested": {"checkpointing": {"enabled": False}},
            "actual": {
                "checkpointing": {"fraction": 0.0, "calls": 0, "calls_in_training_mode": 6},
                "compile": {"checkpoints_in_graph": 0},
                "training": {"training_mode": False},
            },
        },
    ),
    negative(
        "checkpointing/inactive-in-eval-mode",
        "eval mode on purpose, nothing to checkpoint",
        {
            "order": [],
            "requested": {"checkpointing": {"enabled": False}},
            "actual": {"checkpointing": {"fraction": 0.0, "calls": 0}, "training": {"training_mode": False}},
        },
    ),
    positive(
        "checkpointing/rng-state-not-preserved",
        "dropout in the block",
        checkpointing(without_rng_state=24, random_ops=24, random_again=12),
        severity="error",
        confidence="likely",
    ),
    negative(
        "checkpointing/rng-state-not-preserved",
        "no randomness in the block",
        checkpointing(without_rng_state=24, random_ops=0, random_again=0),
    ),
    negative(
        "checkpointing/rng-state-not-preserved",
        "dropout on the embedding only, outside of the checkpoints",
        checkpointing(without_rng_state=24, random_ops=1, random_again=0),
    ),
    positive(
        "checkpointing/requested-and-not-applied",
        "wrapped modules that do not run",
        {"actual": {"checkpointing": {"fraction": 0.0, "calls": 0}, "compile": {"checkpoints_in_graph": 0}}},
    ),
    negative(
        "checkpointing/requested-and-not-applied",
        "captured inside of compiled graphs",
        {"actual": {"checkpointing": {"fraction": 0.0, "calls": 0}, "compile": {"checkpoints_in_graph": 12}}},
    ),
]
