"""One file per library feature. Each has `NAME` and `attach(session)`, and asks what the installed version offers."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trueup_instrument.session import Session

NAMES = (
    "process",
    "libraries",
    "launchers",
    "steps",
    "loaders",
    "compile_trace",
    "compile_setup",
    "compiler_bisector",
    "distributed",
    "data_parallel",
    "fsdp",
    "tensor_parallel",
    "activation_checkpointing",
    "mixed_precision",
    "optimizers",
    "drift",
    "moves",
    "state_dicts",
    "accelerate",
    "transformers",
    "lightning",
    "peft",
    "evaluation",
)


def attach_all(session: Session) -> None:
    """Attach every observer; one that cannot be attached is switched off and the others go on."""
    for name in NAMES:
        try:
            module = importlib.import_module(f"{__name__}.{name}")
        except Exception as error:
            session.switch_off(name, error)
            continue
        session.guarded(module.NAME, module.attach)(session)
