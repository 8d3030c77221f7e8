"""What DDP, FSDP1, FSDP2, accelerate and peft raise."""
# ruff: noqa: E501  (lines stand as they are printed)

from text_case import negative, positive

GRADS = "sharding/fsdp1-nonuniform-requires-grad"
DTYPES = "sharding/fsdp1-nonuniform-dtype"
INTEGERS = "sharding/fsdp1-integer-quantized-storage"
MIXED = "sharding/fsdp2-mixed-tensor-and-dtensor"
WRAP = "sharding/wrap-layer-class-not-found"
UNUSED = "sharding/ddp-unused-parameters"

CASES = (
    positive(
        GRADS,
        "torch 2.13",
        """
        Traceback (most recent call last):
          File "/v/lib/python3.11/site-packages/torch/distributed/fsdp/_flat_param.py", line 823, in _validate_tensors_to_flatten
            raise ValueError(
        ValueError: Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`
        """,
        "established",
    ),
    positive(
        GRADS,
        "escaped backticks",
        r"ValueError: Must flatten tensors with uniform \`requires_grad\` when \`use_orig_params=False\`",
    ),
    positive(GRADS, "torch 2.0", "ValueError: `FlatParameter` requires uniform `requires_grad`"),
    positive(
        GRADS,
        "torch 2.13, a policy object",
        "ValueError: trunk.0 has both parameters with requires_grad=True and False. FSDP does not support wrapping such modules when use_orig_params=False. If possible, wrap the frozen parameters with FSDP separately.",
        "established",
    ),
    negative(
        GRADS,
        "the advice where the original parameters are kept",
        "UserWarning: trunk.0 has both parameters with requires_grad=True and False. We do not recommend wrapping such modules since the gradient memory usage will be higher than expected (18816 numel instead of 384 numel before sharding via reduce-scatter). If possible, wrap the frozen parameters with FSDP separately.",
    ),
    negative(
        GRADS,
        "the setting in a configuration",
        "INFO: fsdp config: {'use_orig_params': False, 'requires_grad': True}\nstep 1 loss 2.0",
    ),
    positive(
        DTYPES,
        "both are floating",
        "ValueError: Must flatten tensors with uniform dtype but got torch.bfloat16 and torch.float32",
        "established",
    ),
    positive(
        DTYPES,
        "torch 1.13",
        "ValueError: `FlatParameter` requires uniform dtype but got torch.float16 and torch.float32",
    ),
    positive(
        DTYPES,
        "FSDP2",
        "AssertionError: FSDP expects uniform original parameter dtype but got {torch.bfloat16, torch.float32}",
    ),
    positive(DTYPES, "cut", "ValueError: Must flatten tensors with uniform dtype but got"),
    negative(
        DTYPES,
        "one is an integer",
        "ValueError: Must flatten tensors with uniform dtype but got torch.bfloat16 and torch.uint8",
        instead=INTEGERS,
    ),
    positive(INTEGERS, "all are integers", "ValueError: Cannot flatten integer dtype tensors", "established"),
    positive(
        INTEGERS,
        "int8 first",
        "ValueError: Must flatten tensors with uniform dtype but got torch.int8 and torch.float16",
    ),
    negative(
        INTEGERS,
        "user code",
        """
        Traceback (most recent call last):
          File "/home/me/model.py", line 3, in <module>
            w = torch.nn.Parameter(torch.zeros(3, dtype=torch.int8))
        RuntimeError: Only Tensors of floating point and complex dtype can require gradients
        """,
    ),
    positive(
        MIXED,
        "an embedding",
        "RuntimeError: aten.embedding.default: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor "
        "before calling distributed operators!",
        "established",
    ),
    positive(
        MIXED,
        "last words",
        "need to convert all torch.Tensor to DTensor before calling distributed operators!",
    ),
    negative(MIXED, "a mixture of something else", "ValueError: got mixed types in list: int and str"),
    positive(
        WRAP,
        "accelerate 1",
        "ValueError: Could not find the transformer layer class GPT2Block in the model.",
        "established",
    ),
    positive(WRAP, "peft", "TypeError: Could not find the transformer layer class to wrap in the model."),
    positive(
        WRAP,
        "mixture of experts",
        "Exception: Could not find a transformer layer class called 'MoeBlock' to wrap in the model.",
    ),
    negative(WRAP, "another class", "ValueError: Could not find the tokenizer class in the model."),
    positive(
        UNUSED,
        "raised",
        """
        RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module has parameters that were not used in producing loss. You can enable unused parameter detection by passing the keyword argument `find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by
        making sure all `forward` function outputs participate in calculating loss.
        Parameter indices which did not receive grad for rank 0: 2 3
        """,
        "established",
    ),
    positive(
        UNUSED,
        "in the words of Lightning",
        "RuntimeError: It looks like your LightningModule has parameters that were not used in producing the loss returned by "
        "training_step. If this is intentional, you must enable the detection of unused parameters in DDP, either by setting the "
        "string value `strategy='ddp_find_unused_parameters_true'` or by setting the flag in the strategy with "
        "`strategy=DDPStrategy(find_unused_parameters=True)`.",
        "established",
    ),
    positive(UNUSED, "indices only", "Parameter indices which did not receive grad for rank 1: 160 161"),
    negative(
        UNUSED,
        "the opposite warning",
        "[W reducer.cpp:1346] Warning: find_unused_parameters=True was specified in DDP constructor, but did not find any unused "
        "parameters in the forward pass. This flag results in an extra traversal of the autograd graph every iteration.",
    ),
)
