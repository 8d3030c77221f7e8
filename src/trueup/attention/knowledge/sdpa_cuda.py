"""Flash, cuDNN and memory-efficient of scaled_dot_product_attention on NVIDIA GPUs; read, not run for want of a GPU.

What differs between releases of torch is told by their release; ROCm has its own kernels, which are not here.
"""

from __future__ import annotations

from trueup.attention import changes, limits
from trueup.attention.call import Call
from trueup.attention.constraints import Constraint
from trueup.attention.kernel import Compiled, Kernel
from trueup.attention.knowledge import sdpa
from trueup.attention.knowledge.sources import cuda, header, page

EFFICIENT_GROUPS_SINCE = (2, 14)
"""https://github.com/pytorch/pytorch/pull/191085 (July 2026); the header of 2.13 has no sign of it yet."""
DEEPSEEK_SINCE = (2, 11)
"""https://github.com/pytorch/pytorch/pull/172621 (January 2026)"""
SIXTEENTHS_SINCE = (2, 12)
"""https://github.com/pytorch/pytorch/pull/174245 (February 2026, after the branch of 2.11)"""
BATCHES_SINCE = (2, 13)
"""https://github.com/pytorch/pytorch/pull/180718 (April 2026, after the branch of 2.12)"""
BUILT_IN = (Compiled(in_graph="operator", source=page("https://github.com/pytorch/pytorch", "torch 2.13")),)


def _not_causal_and_uneven(call: Call) -> bool:
    return not call.is_causal or call.nested or call.length == call.key_length


def _trainable_on_small_gpus(call: Call) -> bool:
    small = call.within((8, 6), (8, 9)) or call.within((12, 0), (12, 1))
    size = call.head_size
    return not (call.requires_grad and small) or size <= 192 or (size > 224 and call.dropout == 0)


def _half_of_the_gpu(call: Call) -> bool:
    return call.dtype == "fp16" or (call.dtype == "bf16" and call.within((8, 0)))


LOW_PRECISION = Constraint(
    about="dtype",
    needs="fp16, or bf16 from sm_80 on",
    holds=_half_of_the_gpu,
    given=lambda call: call.dtype,
    change=lambda call: changes.cast("bf16" if call.within((8, 0)) else "fp16"),
    source=cuda("check_dtypes_low_precision"),
)

FLASH = Kernel(
    name="sdpa-flash",
    title="scaled_dot_product_attention, flash (torch's copy of FlashAttention 2)",
    fused=True,
    package="torch",
    operators=("aten::_scaled_dot_product_flash_attention",),
    device_kernels=("pytorch_flash::flash_fwd",),
    constraints=(
        limits.device(cuda("check_all_tensors_on_device"), "cuda"),
        sdpa.switched_on("flash", header("check_runtime_disabled_flash", 555)),
        limits.four_dimensions(header("check_tensor_shapes", 323)),
        limits.masks(
            header("check_for_attn_mask", 260), "none", "causal", needs="no mask tensor; is_causal for a causal one"
        ),
        limits.same_sizes(cuda("check_head_dim_size_flash")),
        limits.head_size(cuda("check_head_dim_size_flash"), 256),
        limits.generations(cuda("check_flash_attention_hardware_support"), (8, 0), (12, 1)),
        Constraint(
            about="head size in training",
            needs="at most 192, or above 224 without dropout, on sm_86, sm_89, sm_120 and sm_121",
            holds=_trainable_on_small_gpus,
            given=lambda call: f"{call.head_size}" + (f" with dropout {call.dropout:g}" if call.dropout else ""),
            change=lambda call: changes.no_dropout(call) if call.dropout and call.head_size > 224 else None,
            source=cuda("check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120"),
        ),
        Constraint(
            about="length",
            needs="as many keys as queries with is_causal",
            holds=_not_causal_and_uneven,
            given=lambda call: f"{call.length} queries, {call.key_length} keys",
            source=cuda("check_flash_causal_non_square_seqlens"),
        ),
        LOW_PRECISION,
        limits.same_batch(header("check_batch_size_and_num_heads_dense", 398)),
        sdpa.dense_heads(header("check_batch_size_and_num_heads_dense", 398), (2, 5)),
        sdpa.lengths(header("check_nonzero_sequence_lengths_dense", 496)),
        limits.last_stride(
            header("check_last_dim_stride_equals_1_dense", 512), of_mask=True, size_of_one=True
        ),
        *sdpa.NO_ARGUMENT,
    ),
    compiled=BUILT_IN,
)  # fmt: skip


EFFICIENT = Kernel(
    name="sdpa-mem-efficient",
    title="scaled_dot_product_attention, memory-efficient",
    fused=True,
    package="torch",
    operators=("aten::_scaled_dot_product_efficient_attention",),
    device_kernels=("fmha_cutlassF",),
    constraints=(
        limits.device(cuda("check_all_tensors_on_device"), "cuda"),
        sdpa.switched_on("efficient", header("check_runtime_disabled_mem_efficient", 567)),
        limits.generations(cuda("check_mem_efficient_hardware_support"), (5, 0), (12, 1)),
        limits.four_dimensions(header("check_tensor_shapes", 323)),
        limits.aligned_for_cutlass(cuda("check_head_dim_size_mem_efficient")),
        sdpa.lengths(header("check_nonzero_sequence_lengths_dense", 496)),
        limits.last_stride(header("check_last_dim_stride_equals_1_dense", 512), of_mask=True),
        limits.same_batch(header("check_batch_size_and_num_heads_dense", 398)),
        sdpa.dense_heads(header("check_batch_size_and_num_heads_dense", 398), EFFICIENT_GROUPS_SINCE),
        Constraint(
            about="dtype",
            needs="fp16, fp32, or bf16 from sm_80 on",
            holds=lambda call: call.dtype in ("fp16", "fp32") or (call.dtype == "bf16" and call.within((8, 0))),
            given=lambda call: call.dtype,
            change=lambda call: changes.cast("bf16" if call.within((8, 0)) else "fp16"),
            source=cuda("can_use_mem_efficient_attention"),
        ),
        Constraint(
            about="layout",
            needs="dense tensors in training",
            holds=lambda call: not (call.nested and call.requires_grad),
            given=lambda call: "nested tensors",
            source=header("check_requires_grad_and_nested", 249),
        ),
        *sdpa.NO_ARGUMENT,
    ),
    compiled=BUILT_IN,
)


def _cudnn_limit(call: Call) -> int:
    """Largest head size of the forward."""
    cudnn = call.place.versions.get("cudnn", ())
    if call.place.torch >= (2, 14):
        if call.is_gpu(9, 10) and cudnn > (9, 22, 0):
            return 256
    elif call.within((9, 0), (9, 0)) and cudnn >= (9, 10):
        return 256
    deepseek = call.head_size == 192 and call.value_size == 128 and call.place.torch >= DEEPSEEK_SINCE
    return 192 if deepseek and call.is_gpu(9, 10) and cudnn >= (9, 11) else 128


def _cudnn_sizes(call: Call) -> bool:
    sizes = (call.head_size, call.value_size)
    return all(size <= _cudnn_limit(call) and size % 8 == 0 for size in sizes)


def _cudnn_backward(call: Call) -> bool:
    if not call.requires_grad or call.place.torch < (2, 14) or _cudnn_limit(call) < 256:
        return True
    sizes = (call.head_size, call.value_size)
    return max(sizes) <= 128 or sizes in ((192, 128), (256, 256))


def _cudnn_dropout(call: Call) -> bool:
    cudnn = call.place.versions.get("cudnn", ())
    if call.dropout and (9, 11, 0) < cudnn < (9, 14, 0):
        return False
    sixteenths = (call.dropout * 16).is_integer() or call.place.torch < SIXTEENTHS_SINCE
    return sixteenths and not (call.dropout and call.length == 1)


CUDNN = Kernel(
    name="sdpa-cudnn",
    title="scaled_dot_product_attention, cuDNN",
    fused=True,
    package="torch",
    operators=("aten::_scaled_dot_product_cudnn_attention",),
    device_kernels=("cudnn_generated_fort_native_sdpa",),
    constraints=(
        limits.device(cuda("check_all_tensors_on_device"), "cuda"),
        sdpa.switched_on("cudnn", cuda("check_runtime_disabled_cudnn")),
        Constraint(
            about="layout",
            needs="dense tensors, or TORCH_CUDNN_SDPA_NESTED_TENSOR_ENABLED=1",
            holds=lambda call: not call.nested,
            given=lambda call: "nested tensors",
            source=cuda("check_for_nested_inputs"),
        ),
        limits.four_dimensions(header("check_tensor_shapes", 323)),
        Constraint(
            about="determinism",
            needs="torch.use_deterministic_algorithms off",
            holds=lambda call: not call.place.deterministic,
            given=lambda call: "deterministic algorithms",
            source=cuda("check_cudnn_deterministic"),
        ),
        LOW_PRECISION,
        sdpa.mask_shape(header("check_attn_mask_shape", 270)),
        limits.generations(cuda("check_cudnn_hardware_support"), (8, 0), (12, 1)),
        Constraint(
            about="dropout",
            needs="none with cuDNN 9.11 to 9.13 or for one query; multiples of 1/16 from torch 2.12 on",
            holds=_cudnn_dropout,
            given=lambda call: f"dropout_p={call.dropout:g}",
            change=changes.no_dropout,
            source=cuda("check_cudnn_dropout"),
        ),
        sdpa.lengths(header("check_nonzero_sequence_lengths_dense", 496)),
        Constraint(
            about="length",
            needs="more than one key",
            holds=lambda call: call.key_length != 1,
            given=lambda call: "one key",
            source=cuda("check_cudnn_tensor_shapes"),
        ),
        limits.last_stride(
            header("check_last_dim_stride_equals_1_dense", 512), of_mask=True, size_of_one=True
        ),
        limits.same_batch(header("check_batch_size_and_num_heads_dense", 398)),
        sdpa.dense_heads(header("check_batch_size_and_num_heads_dense", 398), (2, 6), mixed=True),
        Constraint(
            about="head size",
            needs="multiples of 8, at most 128; at most 256 on sm_90 with cuDNN 9.10 or newer",
            holds=_cudnn_sizes,
            given=limits.sizes,
            change=lambda call: changes.pad_sizes(call, 8),
            source=cuda("check_cudnn_tensor_shapes"),
        ),
        Constraint(
            about="batch",
            needs="a batch and heads of at most 65535, from torch 2.13 on",
            holds=lambda call: max(call.batch, call.heads) <= 65535 or call.place.torch < BATCHES_SINCE,
            given=lambda call: f"a batch of {call.batch}, {call.heads} heads",
            source=cuda("check_cudnn_tensor_shapes"),
        ),
        Constraint(
            about="head size in training",
            needs="at most 128, or 192 with values of 128, or 256",
            holds=_cudnn_backward,
            given=limits.sizes,
            source=cuda("check_cudnn_d256_bprop_head_dim"),
        ),
        *sdpa.NO_ARGUMENT,
    ),
    compiled=BUILT_IN,
)  # fmt: skip
