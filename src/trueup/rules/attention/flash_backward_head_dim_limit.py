"""The backward of flash-attention does not fit this head size on this GPU."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import gpu_evidence, gpus_with, installed_as, version_of
from trueup.schema.environment import Environment
from trueup.schema.finding import Remedy


def detect_in_environment(environment: Environment) -> Sighting | None:
    small = gpus_with(environment, (8, 6), (9, 0))
    flash = version_of(environment, "flash-attn")
    if not small or flash is None or flash.major >= 2:
        return None
    return Sighting(
        message=f"flash-attn {flash} has no backward for heads above 64 on {small[0].name}.",
        evidence=(installed_as(environment.packages["flash-attn"]), *gpu_evidence(small)),
        confidence="possible",
        severity="note",
    )


RULE = Rule(
    id="attention/flash-backward-head-dim-limit",
    title="Flash backward unsupported for this head size and GPU",
    layers=("attention", "environment"),
    severity="error",
    silent="SDPA takes a slower kernel instead of raising; only a forced backend says why.",
    cause=(
        "The backward keeps large tiles in shared memory, of which consumer Ampere and Ada (sm 8.6, 8.9) have less "
        "than "
        "A100 and H100, so larger head sizes are refused there."
    ),
    remedies=(
        Remedy(
            id="upgrade-flash-attn",
            kind="install",
            automatic=False,
            how="pip install -U flash-attn --no-build-isolation (2.5.5 and newer train head size 256 without dropout)",
        ),
        Remedy(
            id="request-sdpa",
            kind="in-process",
            automatic=True,
            how='attn_implementation="sdpa": the memory-efficient kernel has no such limit',
        ),
        Remedy(
            id="no-attention-dropout",
            kind="in-process",
            automatic=False,
            how="attention_dropout=0.0 (head sizes above 192)",
        ),
    ),
    caution="Forward works, so an inference test does not show it.",
    sources=("https://github.com/pytorch/pytorch/issues/100326",),
    log=(
        LogText(text="FlashAttention backward for head dim", versions="flash-attn 1 and 2"),
        LogText(
            text="Flash attention currently doesn't support training with head_dim", versions="torch 2.1 and newer"
        ),
        LogText(text="Expected is_sm80 to be true, but got false", versions="torch 2.0, flash-attn 1"),
        LogText(text="Expected is_sm80 || is_sm90 to be true, but got false", versions="torch 2.1, flash-attn 1"),
        LogText(text="Expected is_sm90 || is_sm80 to be true, but got false", versions="copies of flash-attn"),
        LogText(
            text="FlashAttention backward only supports head dimension at most",
            strength="supporting",
            versions="flash-attn 2",
        ),
    ),
    from_environment=detect_in_environment,
)
