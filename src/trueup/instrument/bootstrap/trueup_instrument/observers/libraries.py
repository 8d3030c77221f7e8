"""Which libraries of the stack the process imported, and their versions."""

from __future__ import annotations

from trueup_instrument import role

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "libraries"

DISTRIBUTIONS = {
    "torch": "torch",
    "transformers": "transformers",
    "accelerate": "accelerate",
    "peft": "peft",
    "trl": "trl",
    "flash_attn": "flash-attn",
    "flash_attn_interface": "flash-attn-3",
    "xformers": "xformers",
    "bitsandbytes": "bitsandbytes",
    "deepspeed": "deepspeed",
    "lightning": "lightning",
    "pytorch_lightning": "pytorch-lightning",
    "triton": "triton",
    "verl": "verl",
    "liger_kernel": "liger-kernel",
    "unsloth": "unsloth",
    "vllm": "vllm",
    "datasets": "datasets",
}
"""Import name → name of the distribution whose metadata tells the version when the module does not."""


def attach(session: Session) -> None:
    for name, distribution in DISTRIBUTIONS.items():
        session.imports.after(name, session.guarded(NAME, _hook(session, name, distribution)))


def _hook(session: Session, name: str, distribution: str) -> Callable[[ModuleType], None]:
    def imported(module: ModuleType) -> None:
        if name == "torch" and session.role == role.RANK:
            session.open()
        detail = _torch_build(module) if name == "torch" else {}
        session.write("library", name=name, version=_version(module, distribution), detail=detail)

    return imported


def _version(module: ModuleType, distribution: str) -> str | None:
    """The module's own `__version__` if it is there without asking (a lazy module would import half of itself)."""
    version = module.__dict__.get("__version__")
    if version is not None:
        return str(version)
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _torch_build(torch: ModuleType) -> dict[str, Any]:
    version = getattr(torch, "version", None)
    return {
        "cuda": getattr(version, "cuda", None),
        "hip": getattr(version, "hip", None),
        "git": getattr(version, "git_version", None),
        "num_threads": torch.get_num_threads(),
    }
