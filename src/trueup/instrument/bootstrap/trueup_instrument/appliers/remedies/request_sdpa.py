"""Hugging Face models take PyTorch's fused attention where they ask for the one written by hand, or for a kernel that
cannot run."""

from __future__ import annotations

from trueup_instrument.appliers import attention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    switch.after("transformers.modeling_utils", lambda module: attention.models(switch, module.PreTrainedModel, "sdpa"))
