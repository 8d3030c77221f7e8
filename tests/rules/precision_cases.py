"""Precision and memory."""

from healthy_record import event, failed, recompile
from rule_case import negative, positive

MISMATCH = "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16"
UNSCALE = "ValueError: Attempting to unscale FP16 gradients."
NO_KERNEL = "NotImplementedError: \"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'"
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of 79.15 GiB of "
    "which 1.10 GiB is free. Of the allocated memory {allocated} is allocated by PyTorch, and {idle} is reserved by "
    "PyTorch but unallocated."
)
FRAGMENTED = OUT_OF_MEMORY.format(tried="2.00 GiB", allocated="50.00 GiB", idle="27.00 GiB")
FULL = OUT_OF_MEMORY.format(tried="2.00 GiB", allocated="77.00 GiB", idle="210.00 MiB")
LOW = {"parameters": {"bfloat16": 1.0}, "gradients": {"bfloat16": 1.0}}


def precision(**changes):
    return {"actual": {"precision": changes}}


def scaler(**detail):
    return event("precision", "GradScaler", **detail)


CASES = [
    positive("precision/bf16-updates-lost", "plain AdamW", precision(**LOW, unchanged_share=0.93), confidence="likely"),
    negative(
        "precision/bf16-updates-lost",
        "an optimizer with stochastic rounding",
        {
            "actual": {
                "precision": {**LOW, "unchanged_share": 0.93},
                "training": {"optimizers": ["AdamWStochasticRounding"]},
            }
        },
    ),
    negative("precision/bf16-updates-lost", "a large learning rate", precision(**LOW, unchanged_share=0.05)),
    negative(
        "precision/bf16-updates-lost",
        "a frozen bf16 base with float32 adapters",
        precision(parameters={"bfloat16": 0.99, "float32": 0.01}, gradients={"float32": 1.0}, unchanged_share=0.4),
    ),
    positive(
        "precision/gradscaler-with-bf16",
        "its kernel does not exist",
        {"order+": [scaler(enabled=True)], "ranks": [failed(NO_KERNEL)]} | precision(**LOW),
        severity="error",
    ),
    positive(
        "precision/gradscaler-with-bf16",
        "useless where it works",
        {"order+": [scaler(enabled=True)]} | precision(**LOW),
        severity="note",
    ),
    negative(
        "precision/gradscaler-with-bf16",
        "an idle scaler",
        {"order+": [scaler(enabled=False)]} | precision(**LOW),
    ),
    positive(
        "precision/gradscaler-fp16-parameters",
        "fp16 weights under fp16 AMP",
        {"order+": [scaler(enabled=True)], "ranks": [failed(UNSCALE)]},
        severity="error",
    ),
    negative(
        "precision/gradscaler-fp16-parameters",
        "float32 parameters under fp16 AMP",
        {"order+": [scaler(enabled=True)]},
    ),
    positive(
        "precision/forward-outside-autocast",
        "evaluation after training steps",
        {"ranks": [failed(MISMATCH)]} | precision(parameters={"bfloat16": 0.9, "float32": 0.1}),
        severity="error",
    ),
    negative(
        "precision/forward-outside-autocast",
        "one dtype for all parameters: the input is wrong",
        {"ranks": [failed(MISMATCH)]},
    ),
    positive(
        "precision/requested-and-not-applied",
        "autocast around something else",
        precision(matmul={"float32": 1.0}),
    ),
    negative(
        "precision/requested-and-not-applied",
        "float32 parameters are right under autocast",
        precision(parameters={"float32": 1.0}, matmul={"bfloat16": 0.9, "float32": 0.1}),
    ),
    negative(
        "precision/requested-and-not-applied",
        "this run forces float32",
        {"variant": {"layers": {"precision": "fp32"}}} | precision(matmul={"float32": 1.0}),
    ),
    positive(
        "memory/allocator-fragmentation",
        "a third is reserved and idle",
        {"ranks": [failed(FRAGMENTED)]},
        severity="error",
        confidence="likely",
    ),
    negative("memory/allocator-fragmentation", "the hint is printed with every failure", {"ranks": [failed(FULL)]}),
    positive(
        "memory/all-ranks-load-on-first-gpu",
        "rank 1 fails on GPU 0 while loading",
        {"ranks": [failed(FULL, rank=1, steps=0)], "steps": {"count": 0}, "actual": {"compile": {"fraction": None}}},
        severity="error",
        confidence="likely",
    ),
    negative(
        "memory/all-ranks-load-on-first-gpu",
        "rank 0 on its own GPU, after steps",
        {"ranks": [failed(FULL, rank=0, steps=12)]},
    ),
    positive(
        "memory/batch-size-search-recompiles",
        "three sizes tried",
        {
            "order+": [event("memory", "find_executable_batch_size")],
            "actual": {
                "compile": {
                    "recompiles": [
                        recompile(f"0/{i}: tensor 'x' size mismatch at index 0. expected {64 >> i}, actual {32 >> i}")
                        for i in range(3)
                    ]
                }
            },
        },
        confidence="likely",
    ),
    negative(
        "memory/batch-size-search-recompiles",
        "the search ran without compile",
        {
            "order": [event("memory", "find_executable_batch_size")],
            "requested": {"compile": {"module": None}},
            "actual": {"compile": {"recompiles": [], "fraction": 0.0}},
        },
    ),
]
