"""cuDNN's attention kernel was chosen and has no plan for these inputs."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule
from trueup.schema.finding import Remedy

RULE = Rule(
    id="attention/cudnn-sdpa-execution-failure",
    title="cuDNN attention backend fails to build or run a plan",
    layers=("attention",),
    severity="error",
    silent="",
    cause=(
        "SDPA chose the cuDNN kernel from static checks, but cuDNN has no execution plan for this combination of "
        "sizes, "
        "strides and mask."
    ),
    remedies=(
        Remedy(
            id="disable-cudnn-sdpa",
            kind="in-process",
            automatic=True,
            how="torch.backends.cuda.enable_cudnn_sdp(False) before the first step",
        ),
        Remedy(
            id="sdpa-kernel-without-cudnn",
            kind="code",
            automatic=False,
            how=(
                "with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]): "
                "around it"
            ),
        ),
        Remedy(
            id="contiguous-gradient",
            kind="code",
            automatic=False,
            how="output.contiguous() behind the attention call, so that backward does not get an expanded gradient",
        ),
    ),
    caution="Out-of-memory inside of cuDNN looks similar: see how much memory was free.",
    sources=("https://github.com/pytorch/pytorch/issues/138529",),
    log=(
        LogText(text="cuDNN Frontend error: [cudnn_frontend] Error:", versions="torch 2.5 and newer"),
        LogText(text="cuDNN Frontend error:", versions="torch 2.5 and newer, cut short"),
        LogText(text="Expected mha_graph", versions="torch 2.4 to 2.8, a failed check on the plan"),
        LogText(text="cudnn_frontend] Error: No execution plans", strength="supporting", versions="any user of cuDNN"),
        LogText(
            text="cuDNN SDPA backward got an innermost stride of 0 in grad_out",
            strength="supporting",
            versions="torch 2.6 and newer, a warning",
        ),
        LogText(
            text="cuDNN SDPA backward got grad_output.strides() != output.strides()",
            strength="supporting",
            versions="torch 2.5, a warning",
        ),
    ),
)
