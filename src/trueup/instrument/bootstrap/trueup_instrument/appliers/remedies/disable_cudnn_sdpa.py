"""scaled_dot_product_attention does not take its kernel of cuDNN, whatever the program enables."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


SETTER = "_set_sdp_use_cudnn"


def attach(switch: Switch) -> None:
    switch.after("torch", lambda torch: _off(switch, torch))


def _off(switch: Switch, torch: Any) -> None:
    """Every way to enable a kernel ends in the function that is replaced."""
    setter = getattr(torch._C, SETTER, None)
    if setter is None or torch.version.cuda is None:
        switch.cannot("this torch has no attention of cuDNN")
        return
    setter(False)
    switch.changed("cudnn kernel disabled", "torch.backends.cuda")
    replace(torch._C, SETTER, lambda original: lambda enabled: original(False))
