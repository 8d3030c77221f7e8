"""FlashAttention 2, 3 and 4 as packages; read in their sources, not run on a GPU here."""

from __future__ import annotations

from trueup.attention import changes, limits
from trueup.attention.call import Call, MaskKind
from trueup.attention.constraints import Change, Constraint
from trueup.attention.kernel import Compiled, Kernel
from trueup.attention.knowledge.sources import (
    COMMIT,
    FLASH_2_PYTHON,
    FLASH_3_BUILD,
    FLASH_3_PYTHON,
    flash_2,
    flash_3,
    flash_4,
    page,
)  # fmt: skip

INSTALL = "pip install {}; `trueup doctor --for {}` names the wheel that fits"
NO_TENSOR = "no mask tensor: causal, a window, or cu_seqlens for padding and documents"
FLASH_2_BACKWARD = (
    "https://github.com/Dao-AILab/flash-attention/blob/v2.8.3/csrc/flash_attn/src/flash_bwd_launch_template.h#L300"
)
OLDEST_GPU = (8, 0)
"""Ampere: no code is built for what is older."""
TAKEN: tuple[MaskKind, ...] = ("none", "causal", "window", "padding", "document")
"""Kinds of mask that the interfaces have arguments for."""


def _mask(release: str, where: str) -> Constraint:
    return limits.masks(page(where, release), *TAKEN, needs=NO_TENSOR, raises=True)


def _newer(call: Call, since: tuple[int, ...]) -> bool:
    return call.place.versions.get("flash-attn", (9999,)) >= since


def _upgrade(since: tuple[int, ...], words: str) -> Change:
    release = ".".join(map(str, since))
    return Change(
        words=f"pip install -U 'flash-attn>={release}': {words}",
        apply=lambda call: limits.with_package(call, "flash-attn", since),
        exact=False,
    )


def _since(about: str, since: tuple[int, ...], feature: str) -> Constraint:
    """A feature that came with a release."""
    release = ".".join(map(str, since))
    return Constraint(
        about=about,
        needs=f"flash-attn {release} or newer",
        holds=lambda call: not _asks(call, feature) or _newer(call, since),
        given=lambda call: f"{about} with flash-attn {'.'.join(map(str, call.place.versions.get('flash-attn', ())))}",
        change=lambda call: _upgrade(since, f"it has {about}"),
        source=page(FLASH_2_PYTHON.format(release=release), f"flash-attn {release}"),
        raises=True,
    )


def _asks(call: Call, feature: str) -> bool:
    return call.mask.kind == "window" if feature == "window" else bool(getattr(call, feature))


def _is_small_and_trained(call: Call) -> bool:
    """A backward of more than 192 on a GPU of 99 KB of shared memory a block."""
    small = call.within((8, 6), (8, 9)) or call.within((12, 0))
    return call.requires_grad and small and call.head_size > 192


def _least_for_small_gpus(call: Call) -> tuple[int, ...]:
    return (2, 6, 2) if call.head_size <= 224 else (2, 5, 5)


RELEASES = (
    Constraint(
        about="GPU",
        needs="flash-attn 2.7.3 or newer from sm_100 on",
        holds=lambda call: not call.within((9, 1)) or _newer(call, (2, 7, 3)),
        given=lambda call: limits.code(call.place.capability),
        change=lambda call: _upgrade((2, 7, 3), "older releases take newer GPUs for older ones"),
        source=flash_2(368, "2.7.2"),
        raises=True,
    ),
    _since("a sliding window", (2, 3, 0), "window"),
    _since("alibi", (2, 4, 0), "alibi"),
    _since("softcap", (2, 6, 0), "softcap"),
    Constraint(
        about="head size in training",
        needs="at most 192 with dropout before flash-attn 2.7.3, on sm_86 and sm_89",
        holds=lambda call: not (_is_small_and_trained(call) and call.dropout) or _newer(call, (2, 7, 3)),
        given=lambda call: f"{call.head_size} with dropout {call.dropout:g}",
        change=changes.no_dropout,
        source=flash_2(880, "2.6.3"),
        raises=True,
    ),
    Constraint(
        about="head size in training",
        needs="at most 192 before flash-attn 2.5.5, or above 224 before 2.6.2, on sm_86 and sm_89",
        holds=lambda call: not _is_small_and_trained(call) or _newer(call, _least_for_small_gpus(call)),
        given=limits.sizes,
        change=lambda call: _upgrade(_least_for_small_gpus(call), "its backward needs less shared memory"),
        source=flash_2(868, "2.6.1"),
        raises=True,
    ),
    Constraint(
        about="determinism",
        needs="flash-attn 2.4.1 or newer for deterministic=True",
        holds=lambda call: not (call.place.deterministic and call.requires_grad) or _newer(call, (2, 4, 1)),
        given=lambda call: "a backward whose sums differ from run to run",
        change=lambda call: _upgrade((2, 4, 1), "it has deterministic=True"),
        source=page(FLASH_2_PYTHON.format(release="2.4.1"), "flash-attn 2.4.1"),
    ),
)
"""What newer releases of flash-attn have that older ones lack."""


FLASH_2 = Kernel(
    name="flash-attn-2",
    title="FlashAttention 2 (flash-attn)",
    fused=True,
    package="flash-attn",
    operators=("flash_attn::_flash_attn_forward", "flash_attn::_flash_attn_varlen_forward"),
    device_kernels=("flash_fwd_kernel", "flash_fwd_splitkv_kernel"),
    constraints=(
        limits.package(
            page("https://pypi.org/project/flash-attn/", "flash-attn"),
            "flash-attn",
            how=INSTALL.format("flash-attn --no-build-isolation", "flash-attn"),
        ),
        limits.device(flash_2(378), "cuda", raises=True),
        limits.generations(flash_2(370), OLDEST_GPU, raises=True),
        limits.dtypes(flash_2(373), "bf16", "fp16", raises=True),
        limits.last_stride(flash_2(380), of_mask=False, raises=True),
        Constraint(
            about="batch",
            needs="one sequence or more",
            holds=lambda call: call.batch > 0,
            given=lambda call: "a batch of none",
            source=flash_2(392),
            raises=True,
        ),
        limits.same_sizes(page(FLASH_2_PYTHON.format(release="2.8.3"), "flash-attn 2.8.3"), raises=True),
        limits.head_size(flash_2(393), 256, raises=True),
        limits.grouped_heads(flash_2(395)),
        Constraint(
            about="softcap",
            needs="no dropout beside it",
            holds=lambda call: not (call.softcap and call.dropout),
            given=lambda call: "softcap and dropout",
            change=changes.no_dropout,
            source=flash_2(397),
            raises=True,
        ),
        Constraint(
            about="head size in training",
            needs="at most 192 with dropout on sm_86, sm_89 and sm_120; from flash-attn 2.7.3 on no kernel runs, and "
            "gradients are what was in memory",
            holds=lambda call: not (_is_small_and_trained(call) and call.dropout and _newer(call, (2, 7, 3))),
            given=lambda call: f"{call.head_size} with dropout {call.dropout:g}",
            change=changes.no_dropout,
            source=page(FLASH_2_BACKWARD, "flash-attn 2.8.3"),
            raises=True,
            silent=True,
        ),
        _mask("flash-attn 2.8.3", FLASH_2_PYTHON.format(release="2.8.3")),
        limits.without(page(FLASH_2_PYTHON.format(release="2.8.3"), "flash-attn 2.8.3"), "sinks", "attention sinks"),
        *RELEASES,
    ),
    compiled=(
        Compiled(
            in_graph="operator",
            since=(2, 7, 0),
            words="custom operators with torch 2.4 or newer",
            source=page(FLASH_2_PYTHON.format(release="2.7.0"), "flash-attn 2.7.0", "run"),
        ),
        Compiled(
            in_graph="break",
            words="opaque to Dynamo: a graph break in every block",
            source=page(FLASH_2_PYTHON.format(release="2.6.3"), "flash-attn 2.6.3", "run"),
        ),
    ),
)


def _flash_3_sizes(call: Call) -> bool:
    size, value = call.head_size, call.value_size
    multiple = 16 if call.dtype == "fp8" else 8
    if size > 256 or size % multiple or value % multiple:
        return False
    if size == value:
        return True
    pair = (128 < size <= 192 and 96 < value <= 128) or (size <= 64 and value <= 512)
    return pair and call.is_gpu(9)


FLASH_3 = Kernel(
    name="flash-attn-3",
    title="FlashAttention 3 (hopper/ of flash-attention)",
    fused=True,
    package="flash-attn-3",
    operators=("flash_attn_3::_flash_attn_forward", "flash_attn_3::fwd"),
    device_kernels=("FlashAttnFwdSm90", "FlashAttnFwdSm80"),
    constraints=(
        limits.package(
            page("https://github.com/Dao-AILab/flash-attention/tree/main/hopper", "flash-attn-3"),
            "flash-attn-3",
            how=INSTALL.format("flash-attn-3", "flash-attn-3"),
        ),
        limits.device(flash_3(724), "cuda", raises=True),
        limits.generations(page(FLASH_3_BUILD, f"flash-attn-3, {COMMIT}"), (8, 0), (9, 0), raises=True),
        Constraint(
            about="dtype",
            needs="fp16, bf16, or fp8 on sm_90 without a backward",
            holds=lambda call: (
                call.dtype in ("fp16", "bf16") or (call.dtype == "fp8" and call.is_gpu(9) and not call.requires_grad)
            ),
            given=lambda call: call.dtype,
            change=lambda call: changes.cast("bf16"),
            source=flash_3(715),
            raises=True,
        ),
        limits.last_stride(flash_3(726), of_mask=False, raises=True),
        Constraint(
            about="head size",
            needs="multiples of 8 up to 256; values of another size on sm_90, for some pairs",
            holds=_flash_3_sizes,
            given=limits.sizes,
            change=lambda call: changes.pad_sizes(call, 8),
            source=flash_3(780),
            raises=True,
        ),
        limits.grouped_heads(flash_3(781)),
        limits.no_dropout(page(FLASH_3_PYTHON, f"flash-attn-3, {COMMIT}"), raises=True),
        _mask(f"flash-attn-3, {COMMIT}", FLASH_3_PYTHON),
        limits.without(page(FLASH_3_PYTHON, f"flash-attn-3, {COMMIT}"), "alibi", "alibi"),
        limits.without(page(FLASH_3_PYTHON, f"flash-attn-3, {COMMIT}"), "sinks", "attention sinks"),
        Constraint(
            about="determinism",
            needs="head sizes up to 192 for deterministic=True",
            holds=lambda call: (
                not (call.place.deterministic and call.requires_grad and max(call.head_size, call.value_size) > 192)
            ),
            given=limits.sizes,
            source=flash_3(1370),
            raises=True,
        ),
    ),
    compiled=(
        Compiled(
            in_graph="operator",
            words="custom operators in builds from 2025-11-17 on; older ones break the graph",
            source=page("https://github.com/Dao-AILab/flash-attention/pull/1769", "flash-attn-3"),
        ),
    ),
)


def _flash_4_sizes(call: Call) -> bool:
    size, value = call.head_size, call.value_size
    multiple = 16 if call.dtype == "fp8" else 8
    if not call.is_gpu(8, 12) and (size % multiple or value % multiple):
        return False
    if call.is_gpu(9):
        return 8 <= size <= 256 and 8 <= value <= 256
    if call.is_gpu(10, 11):
        pairs = ((192, 128), (256, 256), (64, 512), (512, 512))
        return (8 <= size <= 128 and 8 <= value <= 128) or (size, value) in pairs
    return size <= 256 and value <= 256


FLASH_4 = Kernel(
    name="flash-attn-4",
    title="FlashAttention 4 (flash_attn.cute)",
    fused=True,
    package="flash-attn-4",
    operators=("FlashAttnFunc", "FlashAttnVarlenFunc"),
    device_kernels=("FlashAttentionForward",),
    constraints=(
        limits.package(
            page("https://pypi.org/project/flash-attn-4/", "flash-attn-4"),
            "flash-attn-4",
            how=INSTALL.format("--pre flash-attn-4", "flash-attn-4"),
        ),
        limits.device(flash_4(662), "cuda", raises=True),
        limits.generations(flash_4(681), (8, 0), raises=True),
        Constraint(
            about="GPU",
            needs="sm_90 or newer for a backward",
            holds=lambda call: not (call.requires_grad and call.is_gpu(8)),
            given=lambda call: limits.code(call.place.capability),
            source=flash_4(1854),
            raises=True,
        ),
        Constraint(
            about="dtype",
            needs="fp16, bf16, or fp8 on sm_100 without a backward",
            holds=lambda call: (
                call.dtype in ("fp16", "bf16") or (call.dtype == "fp8" and call.is_gpu(10) and not call.requires_grad)
            ),
            given=lambda call: call.dtype,
            change=lambda call: changes.cast("bf16"),
            source=flash_4(637),
            raises=True,
        ),
        Constraint(
            about="head size",
            needs="multiples of 8; up to 256 on sm_90; up to 128, (192, 128) or 256 on sm_100",
            holds=_flash_4_sizes,
            given=limits.sizes,
            change=lambda call: changes.pad_sizes(call, 8),
            source=flash_4(112),
            raises=True,
        ),
        limits.grouped_heads(flash_4(682)),
        limits.no_dropout(flash_4(3371), raises=True),
        _mask(f"flash-attn-4, {COMMIT}", flash_4(3371).where),
        limits.without(flash_4(3371), "alibi", "alibi"),
        Constraint(
            about="softcap",
            needs="another head size than 256 on sm_100",
            holds=lambda call: not (call.softcap and call.is_gpu(10, 11) and call.head_size == 256),
            given=lambda call: "softcap with head size 256",
            source=flash_4(1309),
            raises=True,
        ),
        Constraint(
            about="attention sinks",
            needs="another head size than 256 on sm_100, and no backward on sm_120",
            holds=lambda call: (
                not (
                    call.sinks
                    and ((call.is_gpu(10, 11) and call.head_size == 256) or (call.is_gpu(8, 12) and call.requires_grad))
                )
            ),
            given=lambda call: f"attention sinks with head size {call.head_size}",
            source=flash_4(1863),
            raises=True,
        ),
        Constraint(
            about="determinism",
            needs="another GPU than sm_120 for deterministic=True",
            holds=lambda call: not (call.place.deterministic and call.requires_grad and call.is_gpu(12)),
            given=lambda call: limits.code(call.place.capability),
            source=flash_4(1915),
            raises=True,
        ),
    ),
    compiled=(
        Compiled(
            in_graph="break",
            words="no custom operators up to 4.0.0.beta27; compiles a kernel for each new shape at its first call",
            source=page("https://github.com/Dao-AILab/flash-attention/pull/2164", f"flash-attn-4, {COMMIT}"),
        ),
    ),
)
