"""CheckpointError in logs: the sentence is the same for every cause, what it lists is not."""
# ruff: noqa: E501  (lines stand as they are printed)

from text_case import negative
from traces import named, traceback

SITE = "/opt/conda/lib/python3.11/site-packages"
CHECKPOINT = (f"{SITE}/torch/utils/checkpoint.py", "raise CheckpointError(")
BACKWARD = ("train.py", "loss.backward()")
COUNTS = (
    "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: A different number of tensors was saved during the "
    "original forward and recomputation.\nNumber of tensors saved during forward: {}\nNumber of tensors saved during "
    "recomputation: {}."
)
METADATA = (
    "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: Recomputed values for the following tensors have "
    "different metadata than during the forward pass.\n"
)
TIP = """
Tip: To see a more detailed error message, either pass `debug=True` to
`torch.utils.checkpoint.checkpoint(...)` or wrap the code block
with `with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):` to
enable checkpoint-debug mode globally.

If this error occurs under torch.compile with automatic_dynamic_shapes enabled,
it may be because the recomputation selected a different compiled graph than the
forward pass (e.g., a dynamic graph instead of the original static graph).
"""
"""Printed by torch 2.13 below every CheckpointError."""


def tensor(position: int, saved: list[int], again: list[int], *dtypes: str) -> str:
    """One tensor of the list, as torch prints it."""
    first, last = (dtypes or ("bfloat16",))[0], (dtypes or ("bfloat16",))[-1]
    device = "device(type='cuda', index=0)"
    return (
        f"tensor at position {position}:\n"
        f"saved metadata: {{'shape': torch.Size({saved}), 'dtype': torch.{first}, 'device': {device}}}\n"
        f"recomputed metadata: {{'shape': torch.Size({again}), 'dtype': torch.{last}, 'device': {device}}}\n"
    )


def raised(error: str, *inside: tuple[str, str]) -> str:
    """The traceback of a backward whose recomputation passed through these files."""
    return traceback(BACKWARD, CHECKPOINT, *inside, error=error)


COMPILED = "checkpointing/compiled-code-inside-checkpoint-recompute-mismatch"
CACHE = "checkpointing/kv-cache-grows-on-recompute"
AUTOCAST = "checkpointing/autocast-weight-cache-recompute-mismatch"
ROUTING = "checkpointing/moe-routing-nondeterministic"
FUSED = "checkpointing/fused-op-recompute-mismatch"
ZERO3 = "checkpointing/zero3-parameter-released-before-recompute"
REENTRANT = "checkpointing/reentrant-variant-used"
FIRST = "checkpointing/first-compile-during-recompute"

CASES = [
    named(
        COMPILED,
        "frames of AOTAutograd",
        raised(
            COUNTS.format(14, 12) + TIP,
            (
                f"{SITE}/torch/_functorch/_aot_autograd/runtime_wrappers.py",
                "all_outs = call_func_at_runtime_with_args(",
            ),
        ),
    ),
    named(
        COMPILED,
        "metadata of compiled code",
        raised(
            METADATA + tensor(3, [8, 128], [8, 256]),
            (f"{SITE}/torch/_dynamo/eval_frame.py", "return self._torchdynamo_orig_callable(*args, **kwargs)"),
            ("/tmp/torchinductor_user/ab/cab.py", "buf3 = empty_strided_cuda((s0, 128), (128, 1), torch.float32)"),
        ),
    ),
    named(COMPILED, "only the sentence", COUNTS.split("\n")[0], "possible"),
    named(COMPILED, "only the sentence, of the other kind", METADATA.strip(), "possible"),
    negative(
        COMPILED,
        "eval_frame is in every stack of a checkpoint, and so is the tip",
        raised(
            METADATA + tensor(2, [1, 8, 512, 64], [1, 8, 1024, 64]) + TIP,
            (f"{SITE}/torch/_dynamo/eval_frame.py", "return fn(*args, **kwargs)"),
        ),
        instead=CACHE,
    ),
    named(CACHE, "keys twice as long", raised(METADATA + tensor(7, [2, 8, 128, 64], [2, 8, 256, 64]))),
    named(
        CACHE,
        "keys before the transpose, several",
        METADATA + tensor(1, [1, 77, 4, 32], [1, 154, 4, 32]) + tensor(2, [1, 77, 4, 32], [1, 154, 4, 32]) + TIP,
    ),
    negative(
        CACHE,
        "the guard of transformers at work",
        "`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.",
    ),
    negative(CACHE, "shorter, not longer", METADATA + tensor(1, [2, 8, 256, 64], [2, 8, 128, 64])),
    named(
        AUTOCAST,
        "weights under autocast",
        raised(
            METADATA + tensor(0, [4096, 4096], [4096, 4096], "bfloat16", "float32"),
            ("train.py", "with torch.autocast('cuda', torch.bfloat16): out = model(x)"),
        ),
    ),
    named(AUTOCAST, "only the list", METADATA + tensor(0, [64, 64], [64, 64], "float32", "float16") + TIP, "likely"),
    negative(AUTOCAST, "integers and floats", METADATA + tensor(0, [64], [64], "int64", "float32")),
    named(
        ROUTING,
        "tokens went both ways",
        METADATA + tensor(3, [512, 1024], [511, 1024]) + tensor(4, [480, 1024], [481, 1024]) + TIP,
    ),
    named(
        ROUTING,
        "the block is named",
        raised(
            METADATA + tensor(3, [37, 2048], [38, 2048]),
            (f"{SITE}/transformers/models/mixtral/modeling_mixtral.py", "current_hidden_states = expert_layer(state)"),
        ),
    ),
    named(ROUTING, "only the list", METADATA + tensor(3, [37], [36]), "likely"),
    negative(ROUTING, "an empty expert", METADATA + tensor(3, [0, 1024], [256, 1024])),
    named(
        FUSED,
        "the operator is in the stack",
        raised(COUNTS.format(27, 8), (f"{SITE}/xformers/ops/swiglu_op.py", "return op(x, w1w2, b1b2, w3, b3)")),
    ),
    named(FUSED, "only the counts", COUNTS.format(27, 8) + TIP, "possible"),
    negative(
        FUSED,
        "compiled code saves other tensors",
        raised(
            COUNTS.format(27, 8), (f"{SITE}/torch/_inductor/output_code.py", "return self.current_callable(inputs)")
        ),
        instead=COMPILED,
    ),
    named(ZERO3, "an empty parameter", METADATA + tensor(5, [1, 1, 2048], [0])),
    named(
        ZERO3,
        "torch 2.1, without torch.Size",
        METADATA
        + "tensor at position 9:\nsaved metadata: {'shape': torch.Size([4096]), 'dtype': torch.float16, 'device': "
        "device(type='cuda', index=3)}\nrecomputed metadata: {'shape': torch.Size([0]), 'dtype': torch.float16, 'device': "
        "device(type='cuda', index=3)}",
    ),
    negative(ZERO3, "an expert without tokens", METADATA + tensor(3, [5, 1024], [0, 1024])),
    named(
        REENTRANT,
        "compiled autograd",
        "torch._dynamo.exc.Unsupported: 'inline in skipfiles: CheckpointFunction.backward | backward /usr/lib/python3/"
        "dist-packages/torch/utils/checkpoint.py, skipped according trace_rules.lookup SKIP_DIRS'",
    ),
    named(
        REENTRANT,
        "torch.autograd.grad",
        "RuntimeError: When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
        "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call .backward() "
        "without passing the `inputs` argument.",
    ),
    named(
        REENTRANT,
        "torch.autograd.grad, torch 2.1",
        "RuntimeError: Checkpointing is not compatible with .grad() or when an `inputs` parameter is passed to .backward(). "
        "Please use .backward() and do not pass its `inputs` argument.",
    ),
    named(
        REENTRANT,
        "DDP meets a parameter twice",
        """
        Traceback (most recent call last):
          File "/w/train.py", line 80, in main
            loss.backward()
          File "/usr/lib/python3/dist-packages/torch/autograd/function.py", line 289, in apply
            return user_fn(self, *args)
          File "/usr/lib/python3/dist-packages/torch/utils/checkpoint.py", line 319, in backward
            torch.autograd.backward(outputs_with_grad, args_with_grad)
        RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use of a module parameter outside the `forward` function.
        """,
        "likely",
    ),
    named(
        REENTRANT,
        "the warning of a job that goes on",
        "/usr/lib/python3/dist-packages/torch/utils/checkpoint.py:460: UserWarning: torch.utils.checkpoint: the "
        "use_reentrant parameter should be passed explicitly. In version 2.9 we will raise an exception if use_reentrant is "
        "not passed.",
        "possible",
    ),
    negative(
        REENTRANT,
        "DDP without checkpointing",
        """
        Traceback (most recent call last):
          File "/w/train.py", line 80, in main
            loss.backward()
          File "/usr/lib/python3/dist-packages/torch/autograd/__init__.py", line 266, in backward
            Variable._execution_engine.run_backward(
        RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use of a module parameter outside the `forward` function.
        """,
    ),
    negative(
        REENTRANT, "the argument in code", "TypeError: checkpoint() got an unexpected keyword argument 'use_reentrant'"
    ),
    named(
        FIRST,
        "random state met by the trace",
        """
        torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:
        AssertionError: Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with 'allow_non_fake_inputs'. Found in aten.clone.default(tensor([...], size=(5056,), dtype=torch.uint8))
        """,
    ),
    named(
        FIRST,
        "frames of the recomputation",
        raised(
            "Exception: Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
            "'allow_non_fake_inputs'. Found in aten.mul.Tensor(tensor([...], device='cuda:0', size=(8, 16)), 2)"
        ),
        "likely",
    ),
    negative(
        FIRST,
        "a trace of another program",
        traceback(
            ("export.py", "make_fx(f)(x)"),
            error="AssertionError: Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
            "'allow_non_fake_inputs'. Found in aten.mul.Tensor(tensor([...], size=(8, 16)), 2)",
        ),
    ),
]
