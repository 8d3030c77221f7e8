"""What serves without installing a compiled package: torch's own attention kernels and the kernels of the hub."""

from __future__ import annotations

from collections.abc import Iterator

from trueup.environment.wheels import commands
from trueup.environment.wheels.here import Here, code_of
from trueup.environment.wheels.knowledge import Known
from trueup.schema.environment import Environment
from trueup.schema.wheels import Way

ATTENTION = ("flash-attn", "flash-attn-3", "flash-attn-4")

SDPA = 'from_pretrained(..., attn_implementation="sdpa")'
SDPA_SOURCES = (
    "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
    "https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/transformers/cuda/sdp_utils.cpp",
)


def alternatives(package: str, environment: Environment, here: Here, known: Known) -> Iterator[Way]:
    """Those that stand in for this package in this environment."""
    if package not in ATTENTION or here.torch is None:
        return
    if here.rocm:
        yield Way(
            kind="torch",
            title="torch's scaled_dot_product_attention",
            commands={"code": SDPA},
            cost="nothing to install; which of its kernels run on this GPU was not verified",
            sources=SDPA_SOURCES,
        )
        return
    if here.torch_lacks:
        return
    if here.is_without_cuda or not here.has_gpu:
        yield Way(
            kind="torch",
            title="torch's scaled_dot_product_attention, which has a flash kernel for CPUs",
            commands={"code": SDPA},
            cost="nothing to install; as fast as CPUs are",
            sources=SDPA_SOURCES,
        )
        return
    yield _torch_own(here)
    if known.hub is not None and _hub_has_code(here, known):
        yield Way(
            kind="hub",
            title=f"the same kernel from the Hugging Face hub: {known.hub.repository}",
            commands={
                **commands.install(environment, ["kernels"]),
                "code": f'from_pretrained(..., attn_implementation="{known.hub.repository}")',
            },
            cost="loads compiled code from the network at run time, built for the newest releases of torch; "
            f"whether there is a build for torch {here.torch_minor} and its CUDA was not verified",
            sources=known.hub.sources,
        )


def _torch_own(here: Here) -> Way:
    oldest = min(here.capabilities, default=(8, 0))
    if oldest < (8, 0):
        title = (
            f"torch's scaled_dot_product_attention with the memory-efficient kernel, as {code_of(oldest)} has no flash"
        )
    elif oldest[0] in (9, 10):
        title = "torch's scaled_dot_product_attention: its FlashAttention 2 kernel, or cuDNN's"
    else:
        title = "torch's scaled_dot_product_attention with its own FlashAttention 2 kernel"
    cost = [
        "nothing to install",
        "an explicit attention mask selects another kernel than flash",
        "no packed sequences by cu_seqlens, softcap or sliding window",
    ]
    if here.torch is not None and here.torch.release[:2] >= (2, 10):
        cost[-1] = "packed sequences need torch.nn.attention.varlen; no softcap"
    code = SDPA
    if oldest[0] in (9, 10):
        code += "; with torch.nn.attention.sdpa_kernel(SDPBackend.CUDNN_ATTENTION): ..."
    return Way(kind="torch", title=title, commands={"code": code}, cost="; ".join(cost), sources=SDPA_SOURCES)


def _hub_has_code(here: Here, known: Known) -> bool:
    """The hub's builds hold code for the same GPUs as the project's own: none before Ampere."""
    oldest = min(here.capabilities, default=(8, 0))
    return oldest >= (8, 0) and (not known.capabilities or oldest[0] in known.capabilities)
