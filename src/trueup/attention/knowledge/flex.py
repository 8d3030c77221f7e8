"""FlexAttention of torch, compiled and not."""

from __future__ import annotations

from trueup.attention import changes, limits
from trueup.attention.call import Call
from trueup.attention.constraints import Constraint, Source
from trueup.attention.kernel import Compiled, Kernel
from trueup.attention.knowledge.sources import installed, page

FLEX = "torch/nn/attention/flex_attention.py"
CPU_KERNEL = "torch/_inductor/kernel/flex/flex_cpu.py"
GPU_KERNEL = "torch/_inductor/kernel/flex/flex_attention.py"


def _ran(line: int, file: str = FLEX) -> Source:
    return installed(file, line, "torch 2.13", "run")


COMMON = (
    limits.package(page("https://pytorch.org/blog/flexattention/", "torch 2.5"), "torch", (2, 5)),
    Constraint(
        about="layout",
        needs="dense tensors",
        holds=lambda call: not call.nested,
        given=lambda call: "nested tensors",
        source=installed(FLEX, 2099, "torch 2.13"),
        raises=True,
    ),
    limits.four_dimensions(_ran(2320), raises=True),
    limits.same_key_size(_ran(2067)),
    limits.flagged_heads(_ran(2322)),
    Constraint(
        about="backward",
        needs="a GPU, or inputs that require no gradient",
        holds=lambda call: not (call.requires_grad and call.place.device == "cpu"),
        given=lambda call: "inputs on a CPU that require a gradient",
        source=_ran(2079),
        raises=True,
    ),
    limits.no_dropout(_ran(2236), raises=True),
    Constraint(
        about="attention sinks",
        needs="a GPU: they are applied to the log-sum-exp, which CPUs do not return",
        holds=lambda call: not (call.sinks and call.place.device == "cpu"),
        given=lambda call: "attention sinks on a CPU",
        source=installed("transformers/integrations/flex_attention.py", 283, "transformers 5.24"),
        raises=True,
    ),
)


def _compiled_dtypes(call: Call) -> bool:
    return call.dtype in ("fp32", "bf16", "fp16") or (call.dtype == "fp8" and call.place.device == "cuda")


COMPILED = Kernel(
    name="flex",
    title="FlexAttention, compiled",
    fused=True,
    package="torch",
    operators=("flex_attention",),
    device_kernels=("triton_tem_fused_flex_attention",),
    constraints=(
        *COMMON,
        Constraint(
            about="compile",
            needs="torch.compile around it",
            holds=lambda call: call.compiled,
            given=lambda call: "no torch.compile",
            change=changes.compile_it,
            source=_ran(2481),
        ),
        Constraint(
            about="dtype",
            needs="fp32, bf16 or fp16",
            holds=_compiled_dtypes,
            given=lambda call: call.dtype,
            change=lambda call: changes.cast("fp32" if call.place.device == "cpu" else "bf16"),
            source=_ran(265, CPU_KERNEL),
            raises=True,
        ),
        Constraint(
            about="dtype",
            needs="another dtype than bf16 before sm_80: torch.compile leaves such a graph out, with a warning",
            holds=lambda call: call.dtype != "bf16" or call.place.device == "cpu" or call.within((8, 0)),
            given=lambda call: f"bf16 on {limits.code(call.place.capability)}",
            change=lambda call: changes.cast("fp16"),
            source=installed("torch/_inductor/compile_fx.py", 3152, "torch 2.13"),
        ),
        limits.head_size(
            installed(GPU_KERNEL, 157, "torch 2.13"),
            1 << 20,
            least=16,
            when=lambda call: call.place.device == "cuda",
            raises=True,
        ),
        Constraint(
            about="GPU",
            needs="sm_70 or newer, for Triton",
            holds=lambda call: call.place.device == "cpu" or call.within((7, 0)),
            given=lambda call: limits.code(call.place.capability),
            source=page("https://github.com/triton-lang/triton#compatibility", "Triton"),
            raises=True,
        ),
    ),
    compiled=(
        Compiled(
            in_graph="needs compile",
            words="fused only inside of a graph; with a block mask of each batch the mask is made outside",
            source=_ran(2481),
        ),
    ),
)

UNCOMPILED = Kernel(
    name="flex-eager",
    title="FlexAttention, not compiled",
    fused=False,
    package="torch",
    operators=("FlexAttentionAutogradOp",),
    constraints=(*COMMON,),
    compiled=(
        Compiled(
            in_graph="needs compile", words="outside of a graph it writes the whole score matrix", source=_ran(2481)
        ),
    ),
)
