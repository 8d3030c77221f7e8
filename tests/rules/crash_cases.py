"""Classes that show as an exception only: the text that names them, and a near one that does not."""

from healthy_record import event, failed
from rule_case import Case, negative, positive


def crash(rule: str, error: str, near: str, *, instead: tuple[str, ...] = ()) -> tuple[Case, Case]:
    """The rule fires on `error` and not on `near`."""
    return (
        positive(rule, "raised", {"exit": {"code": 1}, "ranks": [failed(error)]}, severity="error"),
        negative(rule, "another text", {"exit": {"code": 1}, "ranks": [failed(near)]}, instead=instead),
    )


COUNTS = (
    "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: A different number of tensors was saved during "
    "the original forward and recomputation.\nNumber of tensors saved during forward: 6\nNumber of tensors saved "
    "during recomputation: 4."
)
CACHED = (
    "RuntimeError: Expected query, key, and value to have the same dtype, but got query.dtype: c10::BFloat16 "
    "key.dtype: float and value.dtype: float instead."
)

CASES = [
    *crash(
        "environment/attention-package-missing",
        "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the following error: the "
        "package for FlashAttention2 doesn't seem to be installed.\nat train.py:3",
        "ValueError: batch is empty\ncaused by ModuleNotFoundError: No module named 'flash_attn'\nat train.py:4",
    ),
    *crash(
        "sharding/fsdp1-nonuniform-requires-grad",
        "ValueError: Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`",
        "ValueError: Must flatten tensors with the same dtype but got torch.bfloat16 and torch.float32",
        instead=("error sharding/fsdp1-nonuniform-dtype",),
    ),
    *crash(
        "sharding/fsdp1-nonuniform-requires-grad",
        "ValueError: layers.0 has both parameters with requires_grad=True and False. FSDP does not support wrapping "
        "such modules when use_orig_params=False. If possible, wrap the frozen parameters with FSDP separately.",
        "ValueError: layers.0 has both parameters with requires_grad=True and False, which our optimizer cannot group",
    ),
    *crash(
        "sharding/fsdp1-nonuniform-dtype",
        "ValueError: Must flatten tensors with uniform dtype but got torch.bfloat16 and torch.float32",
        "ValueError: Must flatten tensors with uniform dtype but got torch.bfloat16 and torch.uint8",
        instead=("error sharding/fsdp1-integer-quantized-storage",),
    ),
    *crash(
        "sharding/fsdp1-nonuniform-dtype",
        "AssertionError: FSDP expects uniform original parameter dtype but got {torch.bfloat16, torch.float32}",
        "AssertionError: FSDP expects uniform reduce dtype but got {torch.bfloat16, torch.float32}",
    ),
    *crash(
        "sharding/fsdp1-integer-quantized-storage",
        "ValueError: Cannot flatten integer dtype tensors",
        "ValueError: Cannot flatten a list of lists",
    ),
    *crash(
        "sharding/fsdp2-mixed-tensor-and-dtensor",
        "RuntimeError: aten.embedding.default got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to "
        "DTensor before calling distributed operators!",
        "RuntimeError: aten.embedding.default got a torch.Tensor of the wrong shape",
    ),
    *crash(
        "sharding/wrap-layer-class-not-found",
        "ValueError: Could not find the transformer layer class LlamaDecoderLayer in the model.",
        "ValueError: Could not find the file LlamaDecoderLayer.bin",
    ),
    *crash(
        "attention/sdpa-no-eligible-kernel",
        "RuntimeError: No available kernel. Aborting execution.",
        "RuntimeError: no available kernel module for this Linux",
    ),
    *crash(
        "precision/attention-input-dtype-mismatch",
        "RuntimeError: Expected query, key, and value to have the same dtype, but got query.dtype: float key.dtype: "
        "c10::BFloat16 and value.dtype: c10::BFloat16 instead.",
        "RuntimeError: Expected query, key, and value to have the same device",
    ),
    *crash(
        "compile/compiled-autograd-with-fsdp",
        "RuntimeError: Final callbacks can only be installed during backward pass.",
        "RuntimeError: callbacks can only be installed before training",
    ),
    positive(
        "compile/data-parallel-wrapper-order",
        "prepared twice",
        {
            "ranks": [
                failed("ValueError: FSDP auto wrapping requires modules to not already have FSDP applied but found x")
            ],
            "order+": [
                event("sharding", "FullyShardedDataParallel", "Net"),
                event("compile", "torch.compile", "Net", around=["FSDP1"]),
            ],
        },
        severity="error",
    ),
    negative(
        "compile/data-parallel-wrapper-order",
        "compiled inside of DDP, which splits the graph all the same",
        {"order+": [event("sharding", "DistributedDataParallel", "Net", compiled_inside=True)]},
    ),
    positive(
        "checkpointing/fused-op-recompute-mismatch",
        "other tensors, and nothing is compiled",
        {"ranks": [failed(COUNTS)], "order": [], "requested": {}, "actual": {"compile": {"graphs": 0}}},
        severity="error",
        confidence="likely",
    ),
    negative(
        "checkpointing/fused-op-recompute-mismatch",
        "compile is asked for, and may be what differs",
        {"ranks": [failed(COUNTS)]},
    ),
    positive(
        "precision/accelerate-fp32-output-wrapper",
        "a cached key in float32 after training",
        {"ranks": [failed(CACHED)], "order+": [event("trainer", "Accelerator", mixed_precision="bf16")]},
        severity="error",
        confidence="likely",
        also=("error precision/attention-input-dtype-mismatch",),
    ),
    negative(
        "precision/accelerate-fp32-output-wrapper",
        "the query is the one in float32",
        {
            "ranks": [
                failed(
                    CACHED.replace(
                        "query.dtype: c10::BFloat16 key.dtype: float", "query.dtype: float key.dtype: c10::BFloat16"
                    )
                )
            ],
            "order+": [event("trainer", "Accelerator", mixed_precision="bf16")],
        },
        instead=("error precision/attention-input-dtype-mismatch",),
    ),
]
