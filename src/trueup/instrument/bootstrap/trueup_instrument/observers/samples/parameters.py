"""Small questions about one parameter that several observers ask."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from trueup_instrument.session import Session


def local(tensor: Any) -> Any:
    """The part of a tensor that this rank holds: the local tensor of a DTensor, else the tensor itself."""
    return getattr(tensor, "_local_tensor", tensor)


def is_sharded(tensor: Any) -> bool:
    """True when other ranks hold other parts: a DTensor sharded over more than one rank, or an FSDP1 flat parameter."""
    placements = getattr(tensor, "placements", None)
    if placements is not None:
        mesh = tensor.device_mesh
        return any(placement.is_shard() and mesh.size(axis) > 1 for axis, placement in enumerate(placements))
    return bool(getattr(tensor, "_is_flat_param", False))


def elements_everywhere(tensor: Any) -> int:
    """Elements of the whole tensor over all ranks."""
    whole = getattr(tensor, "ds_numel", None)  # DeepSpeed ZeRO-3 keeps the full size here
    return int(whole if whole is not None else tensor.numel())


def dtype_name(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def names_of(roots: Sequence[Any]) -> dict[int, str]:
    """id(parameter) → name, over all roots; wrappers' prefixes left out."""
    names: dict[int, str] = {}
    for root in roots:
        for name, parameter in root.named_parameters():
            for prefix in ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."):
                name = name.replace(prefix, "")
            names.setdefault(id(parameter), name.removeprefix("module."))
    return names


def of_optimizers(session: Session) -> dict[int, Any]:
    """id(parameter) → parameter, of all that the live optimizers hold."""
    optimizers = getattr(session, "optimizers", ())
    return {id(p): p for optimizer in list(optimizers) for group in optimizer.param_groups for p in group["params"]}


def no_grad() -> Any:
    return sys.modules["torch"].no_grad()
