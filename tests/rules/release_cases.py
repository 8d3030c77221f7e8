"""Classes of certain releases only: the record of the failing job, and the same job with another release or detail.

Each event is named with the observer that writes it; versions are those of `environment.packages`.
"""

from healthy_record import HEALTHY, event, failed, kernel
from rule_case import negative, positive

ROTARY = "AssertionError: torch.float32 != torch.bfloat16\nat model.py:88"
DYNAMO = "torch._dynamo.exc.InternalTorchDynamoError: AttributeError: 'NoneType' object has no attribute 'weight'"
"""Stands for any failure of Dynamo: the report of the class shows its frames, not its last line."""

EMPTY = "RuntimeError: max(): Expected reduction dim to be specified for input.numel() == 0."
EAGER = {"fraction": 0.0, "blocks": {"total": 12, "compiled": 0}}
UNSEEN = {**EAGER, "frames": 0, "graphs": 0, "recompiles": [], "breaks": [], "checkpoints_in_graph": 0}


def on(**releases):
    return {"environment": {"packages": releases}}


def without(*events):
    """The order of the healthy job without these events."""
    return [each for each in HEALTHY["order"] if each["event"] not in events]


# -- cuDNN: the names of kernels are those of trueup/attention/kernels.py, losses and samples of the steps -------------


def diverged(torch, *, name="sdpa-cudnn", masks=None, length=704, finite=1):
    """A job whose loss turns NaN after `finite` steps, on CUDA."""
    losses = [6.0] * finite + [None] * (4 - finite)
    return {
        **on(torch=torch),
        "steps": {"count": 4, "losses": losses, "not_finite": list(range(finite + 1, 5))},
        "samples": [{"step": 3, "sequence_length": length}],
        "actual": {"attention": {"kernels": [kernel(name, 24)], "masks": masks or {"none": 24}}},
    }


CUDNN = "attention/cudnn-sdpa-nan-gradients"
CAUSAL = {"causal": 24}
MASKED = ("note attention/explicit-mask-deselects-flash",)

# -- selective checkpoints: observers/activation_checkpointing.py ------------------------------------------------------


def checkpointed(torch, compile, **detail):
    wrap = event("checkpointing", "checkpoint_wrapper", "Block", reentrant=False, count=1, **detail)
    return {**on(torch=torch), "order+": [wrap], "actual": {"compile": compile}}


SELECTIVE = "checkpointing/selective-checkpoint-hides-compiled-function"
HIDING = {"selective": True, "compiled_inside": True}

# -- FSDP1: observers/fsdp.py ------------------------------------------------------------------------------------------


def fsdp1(error, *, torch="2.6.0+cu124", order=(), buffer=None, **ignored):
    """A compiled job under FSDP1 that dies of `error` in its first step."""
    policy = {"param": "bfloat16", "reduce": None, "buffer": buffer}
    wrap = event(
        "sharding", "FullyShardedDataParallel", "Llama", use_orig_params=True, mixed_precision=policy, **ignored
    )
    return {
        **on(torch=torch),
        "order": [*(order or without("fully_shard")), wrap],
        "requested": {"sharding": {"strategy": "FSDP1"}},
        "actual": {"sharding": {"strategy": "FSDP1/FULL_SHARD"}},
        "exit": {"code": 1},
        "ranks": [failed(error, rank) for rank in (0, 1)],
    }


IGNORED, BUFFERS = "compile/fsdp1-ignored-modules", "precision/fsdp-buffer-dtype-rotary-embedding"
NOTHING_COMPILED = without("fully_shard", "Module.compile")

# -- accelerate: observers/accelerate.py, compile_setup.py and fsdp.py -------------------------------------------------


def regional(accelerate, *, first="compile_regions", **detail):
    steps = [
        event("compile", "compile_regions", "Llama", compiled=12, backend="inductor"),
        event("sharding", "fully_shard", "LlamaDecoderLayer", reshard_after_forward=True),
    ]
    stack = {"distributed_type": "FSDP", "fsdp_version": 2, "regional": True, "dynamo_backend": "inductor", **detail}
    order = without("fully_shard", "Module.compile")
    made = event("trainer", "Accelerator", **stack)
    ordered = sorted(steps, key=lambda each: each["event"] != first)
    return {**on(accelerate=accelerate), "order": [*order, made, *ordered]}


REGIONAL = "compile/regional-compile-bypasses-fsdp-hooks"

# -- flash attention: the request is that of observers/transformers.py -------------------------------------------------


def flash(transformers, implementation="flash_attention_2"):
    return {
        **on(transformers=transformers),
        "exit": {"code": 1},
        "ranks": [failed(EMPTY)],
        "requested": {"attention": {"implementation": implementation}},
        "actual": {"attention": {"requested": implementation, "kernels": []}},
    }


GUESSED = "attention/cu-seqlens-inferred-wrongly"

CASES = [
    positive(
        CUDNN, "torch 2.5.0, from the second step", diverged("2.5.0+cu124"), severity="error", confidence="likely"
    ),
    positive(
        CUDNN, "torch 2.5.0, later on", diverged("2.5.0+cu124", finite=3), severity="error", confidence="possible"
    ),
    positive(
        CUDNN,
        "torch 2.13, masked, the last tile of keys is half full",
        diverged("2.13.0+cu130", masks=CAUSAL, finite=3),
        severity="error",
        confidence="likely",
        also=MASKED,
    ),
    negative(CUDNN, "torch 2.5.1", diverged("2.5.1+cu124")),
    negative(
        CUDNN, "torch 2.13, a mask and whole tiles", diverged("2.13.0+cu130", masks=CAUSAL, length=768), instead=MASKED
    ),
    negative(CUDNN, "torch 2.13, no mask", diverged("2.13.0+cu130")),
    negative(CUDNN, "flash ran", diverged("2.5.0+cu124", name="sdpa-flash")),
    negative(CUDNN, "the forward pass was never finite", diverged("2.5.0+cu124", finite=0)),
    negative(
        CUDNN, "a healthy job", {**on(torch="2.5.0"), "actual": {"attention": {"kernels": [kernel("sdpa-cudnn")]}}}
    ),
    positive(
        SELECTIVE,
        "torch 2.8",
        checkpointed("2.8.0+cu128", UNSEEN, **HIDING),
        confidence="likely",
    ),
    negative(
        SELECTIVE,
        "torch 2.13, where something else keeps compile out",
        checkpointed("2.13.0", UNSEEN, **HIDING),
        instead=("warning compile/requested-and-not-applied",),
    ),
    negative(
        SELECTIVE,
        "a full checkpoint",
        checkpointed("2.8.0", UNSEEN, selective=False, compiled_inside=True),
        instead=("warning compile/requested-and-not-applied",),
    ),
    negative(
        SELECTIVE,
        "Dynamo is switched off",
        {
            **checkpointed("2.8.0", UNSEEN, **HIDING),
            "environment": {"packages": {"torch": "2.8.0"}, "variables": {"TORCHDYNAMO_DISABLE": "1"}},
        },
        instead=("warning compile/requested-and-not-applied",),
    ),
    negative(SELECTIVE, "torch 2.9, and the blocks run compiled", checkpointed("2.9.1", {}, **HIDING)),
    positive(IGNORED, "modules", fsdp1(DYNAMO, ignored_modules=1), severity="error", confidence="possible"),
    positive(IGNORED, "parameters", fsdp1(DYNAMO, ignored_parameters=2), severity="error", confidence="possible"),
    negative(IGNORED, "nothing is ignored", fsdp1(DYNAMO, ignored_modules=0, ignored_parameters=0)),
    negative(IGNORED, "torch 2.7", fsdp1(DYNAMO, torch="2.7.1", ignored_modules=1)),
    negative(IGNORED, "an error of the job's own", fsdp1("KeyError: 'labels'", ignored_modules=1)),
    negative(IGNORED, "not compiled", fsdp1(DYNAMO, order=NOTHING_COMPILED, ignored_modules=1)),
    positive(BUFFERS, "bf16 buffers", fsdp1(ROTARY, buffer="bfloat16"), severity="error", confidence="likely"),
    negative(BUFFERS, "buffers stay as they are", fsdp1(ROTARY)),
    negative(BUFFERS, "not compiled", fsdp1(ROTARY, order=NOTHING_COMPILED, buffer="bfloat16")),
    negative(
        BUFFERS,
        "an integer",
        fsdp1("AssertionError: torch.int64 != torch.int32", buffer="bfloat16"),
    ),
    positive(REGIONAL, "accelerate 1.13", regional("1.13.0"), confidence="likely"),
    negative(REGIONAL, "accelerate 1.14 compiles in place", regional("1.14.0")),
    negative(REGIONAL, "FSDP1", regional("1.13.0", fsdp_version=1)),
    negative(REGIONAL, "sharded by hand, beside an Accelerator", regional("1.13.0", distributed_type="NO")),
    negative(REGIONAL, "blocks compiled after sharding", regional("1.13.0", first="fully_shard")),
    positive(GUESSED, "a chunk that starts elsewhere", flash("4.54.1"), severity="error", confidence="likely"),
    negative(GUESSED, "sdpa: the error is of the job's own", flash("4.54.1", "sdpa")),
    negative(GUESSED, "transformers 4.57 takes the least position for the first", flash("4.57.1")),
]
