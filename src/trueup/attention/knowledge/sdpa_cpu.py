"""Flash and math of scaled_dot_product_attention on CPUs; held against torch by tests/attention/test_predict.py."""

from __future__ import annotations

from trueup.attention import changes, limits
from trueup.attention.call import Call
from trueup.attention.constraints import Constraint, Source
from trueup.attention.kernel import Compiled, Kernel
from trueup.attention.knowledge import sdpa
from trueup.attention.knowledge.sources import cpu, header_run, page

GROUPED_SINCE = (2, 9)
"""https://github.com/pytorch/pytorch/pull/157893 (July 2025)"""

FLASH = Kernel(
    name="sdpa-flash-cpu",
    title="scaled_dot_product_attention, flash for CPUs",
    fused=True,
    package="torch",
    operators=("aten::_scaled_dot_product_flash_attention_for_cpu",),
    constraints=(
        limits.device(cpu("use_flash_attention_cpp"), "cpu"),
        sdpa.switched_on("flash", header_run("check_runtime_disabled_flash", 555)),
        sdpa.not_nested(header_run("check_nested_tensor", 227)),
        limits.no_dropout(header_run("check_for_dropout", 239)),
        limits.four_dimensions(header_run("check_tensor_shapes", 323)),
        limits.same_batch(header_run("check_batch_size_and_num_heads_dense", 398)),
        sdpa.dense_heads(header_run("check_batch_size_and_num_heads_dense", 398), GROUPED_SINCE),
        sdpa.mask_shape(header_run("check_attn_mask_shape", 270)),
        limits.same_sizes(cpu("check_head_dim_size_cpp")),
        sdpa.lengths(header_run("check_nonzero_sequence_lengths_dense", 496)),
        limits.last_stride(header_run("check_last_dim_stride_equals_1_dense", 512), of_mask=False),
        limits.dtypes(cpu("use_flash_attention_cpp"), "fp32", "fp64", "bf16", "fp16"),
        *sdpa.NO_ARGUMENT,
    ),
    compiled=(Compiled(in_graph="operator", source=page("https://github.com/pytorch/pytorch", "torch 2.13", "run")),),
)

ATTENTION = "https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/transformers/attention.cpp"


def _run(name: str) -> Source:
    return page(f"{ATTENTION} ({name})", "torch 2.13", "run")


def _broadcast(call: Call) -> bool:
    """Whether the leading dimensions of keys and values fit those of the queries."""
    if call.enable_gqa:
        if call.rank < 3:
            return False
        kv = (call.key_heads, call.value_heads)
        if not all(kv) or any(call.heads % each for each in kv):
            return False
    last = 3 if call.enable_gqa else 2
    leading = [shape[:-last] for shape in (call.query, call.key, call.value)]
    longest = max(map(len, leading))
    padded = [(1,) * (longest - len(shape)) + shape for shape in leading]
    return all(len({size for size in sizes if size != 1}) <= 1 for sizes in zip(*padded, strict=True))


def _scores(call: Call) -> tuple[int, ...]:
    """Shape of the scores: the leading dimensions, broadcast, and both lengths."""
    leading = [call.query[:-2], call.key[:-2]]
    longest = max(map(len, leading))
    padded = [(1,) * (longest - len(shape)) + shape for shape in leading]
    broadcast = (next((size for size in sizes if size != 1), 1) for sizes in zip(*padded, strict=True))
    return (*broadcast, call.length, call.key_length)


def _mask_fits(call: Call) -> bool:
    """The mask is added in place: it may be smaller than the scores, never larger."""
    if not call.mask.is_tensor:
        return True
    shape, scores = call.mask_shape, _scores(call)
    if len(shape) > len(scores):
        return False
    return all(size in (1, whole) for size, whole in zip(reversed(shape), reversed(scores), strict=False))


MATH = Kernel(
    name="sdpa-math",
    title="scaled_dot_product_attention, math",
    fused=False,
    package="torch",
    operators=("aten::_scaled_dot_product_attention_math", "aten::_scaled_dot_product_attention_math_for_mps"),
    constraints=(
        sdpa.switched_on("math", cpu("select_sdp_backend_cpp")),
        limits.dtypes(
            _run("_scaled_dot_product_attention_math"),
            "fp32", "fp64", "bf16", "fp16", raises=True,
        ),
        limits.same_key_size(_run("_scaled_dot_product_attention_math")),
        Constraint(
            about="length",
            needs="as many values as keys",
            holds=lambda call: call.key_length == call.value_length,
            given=lambda call: f"{call.key_length} keys, {call.value_length} values",
            source=_run("_scaled_dot_product_attention_math"),
            raises=True,
        ),
        Constraint(
            about="heads",
            needs="batch and heads that broadcast, or enable_gqa and a divisor of the heads of queries",
            holds=_broadcast,
            given=limits.heads,
            change=changes.enable_gqa,
            source=_run("pre_process_group_query_attention_input"),
            raises=True,
        ),
        Constraint(
            about="mask",
            needs="a mask that broadcasts to the scores",
            holds=_mask_fits,
            given=lambda call: f"a mask of shape {call.mask_shape}",
            source=_run("_scaled_dot_product_attention_math"),
            raises=True,
        ),
        Constraint(
            about="mask",
            needs="a mask or is_causal, not both",
            holds=lambda call: not (call.mask.is_tensor and call.is_causal),
            given=lambda call: "both",
            source=_run("_scaled_dot_product_attention_math"),
            raises=True,
        ),
        *sdpa.NO_ARGUMENT,
    ),
    compiled=(
        Compiled(
            in_graph="traced",
            words="decomposed into matrix products and a softmax",
            source=page("https://github.com/pytorch/pytorch", "torch 2.13", "run"),
        ),
    ),
)  # fmt: skip
