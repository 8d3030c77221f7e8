"""The loss turns NaN where cuDNN's attention ran, in a release whose backward pass is known to give NaN."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting, within
from trueup.rules.facts import explicit_masks, installed
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

LAYOUT = {"torch": "==2.5.0"}
"""Backward took the layout of the output for granted: NaN from the first step on."""
TILES = {"torch": ">=2.11,<2.14"}
"""Backward with a mask scores the padded half of the last tile of 128 keys."""
TILE = 128


def detect(record: Record) -> Sighting | None:
    attention, steps = record.actual.attention, record.steps
    kernels = tuple(kernel for kernel in attention.kernels if "cudnn" in kernel.name)
    started_finite = bool(steps.losses) and steps.losses[0] is not None
    if not kernels or not steps.not_finite or not started_finite or "torch" not in installed(record):
        return None
    lengths = _half_tiles(record)
    layout = within(installed(record), LAYOUT)
    tiles = within(installed(record), TILES) and bool(explicit_masks(attention)) and bool(lengths)
    if not (layout or tiles):
        return None
    first = steps.not_finite[0]
    return Sighting(
        message=f"The loss is not finite from step {first} on, and attention ran cuDNN's kernel of torch "
        f"{installed(record)['torch']}, whose backward pass is known to give NaN.",
        evidence=(
            Evidence(what="first step whose loss is not finite", value=first),
            *(
                Evidence(what=f"attention calls of {kernel.op or kernel.name}", value=kernel.calls)
                for kernel in kernels
            ),
            *(Evidence(what="sequence length that leaves half a tile of 128", value=length) for length in lengths[:2]),
        ),
        confidence="likely" if tiles or first <= 2 else "possible",
    )


def _half_tiles(record: Record) -> tuple[int, ...]:
    """Sequence lengths of sampled steps for which the last tile of keys is half full."""
    seen = {sample.sequence_length for sample in record.samples if sample.sequence_length}
    return tuple(length for length in sorted(seen) if length % TILE == TILE // 2)


RULE = Rule(
    id="attention/cudnn-sdpa-nan-gradients",
    title="cuDNN attention backend returns NaN gradients",
    layers=("attention", "precision"),
    severity="error",
    silent="The forward pass is finite and nothing is printed; the loss is NaN one step later.",
    cause=(
        "Defects in the backward pass of cuDNN's attention: torch 2.5.0 took a layout of the output for granted; later "
        "releases handle the last, half full tile of a masked call wrongly."
    ),
    remedies=(
        Remedy(
            id="disable-cudnn-sdpa",
            kind="in-process",
            automatic=True,
            how="torch.backends.cuda.enable_cudnn_sdp(False) before the first step",
        ),
        Remedy(
            id="causal-instead-of-mask",
            kind="code",
            automatic=False,
            how="is_causal=True instead of a mask, or sequences padded to a multiple of 128",
        ),
        Remedy(
            id="upgrade-torch",
            kind="install",
            automatic=False,
            how="torch >= 2.5.1 instead of 2.5.0; a cuDNN with the fix",
        ),
    ),
    caution="Confirm by disabling cuDNN only: NaN that persists comes from the model or from the precision settings.",
    sources=(
        "https://github.com/pytorch/pytorch/issues/196678",
        "https://github.com/NVIDIA/cudnn-frontend/issues/1072",
        "https://github.com/huggingface/diffusers/issues/9768",
    ),
    from_record=detect,
)
