"""Lightning: the processes it starts itself, and what a Trainer that fits, or a Fabric, was asked for."""

from __future__ import annotations

import weakref

from trueup_instrument import patching
from trueup_instrument.announcements import Announcements, precision_name, spoken
from trueup_instrument.observers.launchers import say_launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "lightning"

TRAINERS = ("lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer")
FABRICS = ("lightning.fabric.fabric", "lightning_fabric.fabric")
LAUNCHERS = (
    "lightning.pytorch.strategies.launchers.subprocess_script",
    "pytorch_lightning.strategies.launchers.subprocess_script",
    "lightning.fabric.strategies.launchers.subprocess_script",
    "lightning_fabric.strategies.launchers.subprocess_script",
)
STRATEGIES = {"ddp": "DDP", "fsdp": "FSDP1", "deepspeed": "DeepSpeed"}
"""What begins the name of a strategy, or of its class, in lower case → what it asks for."""
PRECISIONS = {"bf16": "bf16", "16": "fp16"}
"""The first part of `bf16-mixed`, `16-true`; 32 and 64 ask for no low precision."""


def attach(session: Session) -> None:
    say = Announcements(session)
    for name in TRAINERS:
        session.after_torch(NAME, name, lambda module: _trainer(session, say, module.Trainer))
    for name in FABRICS:
        session.after_torch(NAME, name, lambda module: _fabric(session, say, module.Fabric))
    for name in LAUNCHERS:
        session.after_torch(NAME, name, lambda module: _launcher(session, module))


def _trainer(session: Session, say: Announcements, kind: Any) -> None:
    """A Trainer speaks when it fits: one that only evaluates asks for nothing of the training."""
    arguments, argument_of_fit = patching.arguments_of(kind.__init__), patching.arguments_of(kind.fit)
    asked: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()

    def made(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        given = arguments(args, kwargs)
        asked[args[0]] = {name: given.get(name) for name in ("strategy", "precision")}

    def fits(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        trainer = args[0]
        given = asked.get(trainer, {})
        _request(say, given.get("strategy"), given.get("precision") or trainer.precision, "Trainer")
        model = argument_of_fit(args, kwargs).get("model")
        say.layer(
            "trainer",
            "Trainer.fit",
            type(getattr(model, "_orig_mod", model)).__name__,
            library="lightning",
            strategy=type(trainer.strategy).__name__,
            precision=spoken(trainer.precision),
            world_size=trainer.world_size,
            accumulate_grad_batches=spoken(trainer.accumulate_grad_batches),
        )

    patching.around(session, NAME, kind, "__init__", after=made)
    patching.around(session, NAME, kind, "fit", before=fits)


def _fabric(session: Session, say: Announcements, kind: Any) -> None:
    arguments = patching.arguments_of(kind.__init__)

    def made(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        fabric, given = args[0], arguments(args, kwargs)
        precision = fabric.strategy.precision.precision
        _request(say, given.get("strategy"), given.get("precision") or precision, "Fabric")
        say.layer(
            "trainer",
            "Fabric",
            strategy=type(fabric.strategy).__name__,
            precision=spoken(precision),
            world_size=fabric.world_size,
        )

    patching.around(session, NAME, kind, "__init__", after=made)


def _request(say: Announcements, strategy: Any, precision: Any, source: str) -> None:
    say.request("sharding", "strategy", strategy_name(strategy), f"{source}(strategy)")
    say.request("precision", "dtype", precision_asked(precision), f"{source}(precision)")


def strategy_name(strategy: Any) -> str | None:
    """Of `ddp_find_unused_parameters_true`, `deepspeed_stage_3` or an instance; None for `auto` and what is not known.

    ModelParallelStrategy shards nothing itself: what the model's own `configure_model` asks for is seen there.
    """
    name = strategy if isinstance(strategy, str) else type(strategy).__name__
    name = name.lower()
    kind = next((kind for beginning, kind in STRATEGIES.items() if name.startswith(beginning)), None)
    stage = name.partition("stage_")[2][:1]
    return f"{kind} ZeRO-{stage}" if kind == "DeepSpeed" and stage else kind


def precision_asked(precision: Any) -> Any:
    """`bf16` or `fp16`, or None where full precision was asked for, or what has no name among these."""
    name = str(spoken(precision)).partition("-")[0]
    return precision_name(PRECISIONS.get(name))


def _launcher(session: Session, module: ModuleType) -> None:
    """Without torchrun, the first process starts the others: the same script with another LOCAL_RANK."""

    def starts(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        here, nodes = args[0].num_processes, args[0].num_nodes
        say_launch(session, "lightning", here * nodes, per_node=here, nodes=nodes)

    patching.around(session, NAME, module._SubprocessScriptLauncher, "_call_children_scripts", before=starts)
