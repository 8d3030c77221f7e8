"""The kernels that are known, each with its constraints and their sources."""

from __future__ import annotations

from trueup.attention.kernel import Kernel
from trueup.attention.knowledge import flash_attn, flex, hub, others, sdpa_cpu, sdpa_cuda

KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        flash_attn.FLASH_2,
        flash_attn.FLASH_3,
        flash_attn.FLASH_4,
        sdpa_cuda.FLASH,
        sdpa_cuda.CUDNN,
        sdpa_cuda.EFFICIENT,
        sdpa_cpu.FLASH,
        sdpa_cpu.MATH,
        flex.COMPILED,
        flex.UNCOMPILED,
        others.VARLEN,
        others.XFORMERS_FLASH_3,
        others.XFORMERS_FLASH,
        others.XFORMERS_CUTLASS,
        *hub.KERNELS,
        others.EAGER,
    )
}
"""Name → kernel."""
