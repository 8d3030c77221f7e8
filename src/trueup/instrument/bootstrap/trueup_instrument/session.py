"""One observed interpreter: its event file, its hooks, and the rule that a failing observer switches itself off."""

from __future__ import annotations

import atexit
import functools
import os
import platform
import socket
import sys

from trueup_instrument import importing, role
from trueup_instrument.dynamo import unseen
from trueup_instrument.events import EventFile
from trueup_instrument.secrets import program_words, without_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, ParamSpec, TypeVar
    from weakref import WeakSet

    from trueup_instrument.clock import Clock
    from trueup_instrument.sampling import Sampler

    P = ParamSpec("P")
    R = TypeVar("R")

FAULTS = "TRUEUP_FAULTS"
"""Names of observers that are made to raise, comma separated, or `all`: proves that a failure stays ours.

`name:3` raises at the third call that observer gets.
"""

SHOWN_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "PYTORCH_ALLOC_CONF")
SHOWN_PREFIXES = (
    "ACCELERATE_",
    "FSDP_",
    "PARALLELISM_CONFIG_",
    "TORCH",
    "NCCL_",
    "PYTORCH_",
    "TRITON_",
    "TRANSFORMERS_",
    "GLOO_",
)


class Session:
    """Ties events, import hooks and observers together for one process."""

    optimizers: WeakSet[Any]
    """Those that are alive, once the observer of optimizers is attached."""

    def __init__(self, folder: str, what: str, late: bool = False) -> None:
        self.role = what
        self.late = late
        """The program is at work already: its modules have taken functions by name that are to be observed."""
        self.detached = False
        self.undo: list[Callable[[], str | None]] = []
        """What was put in place, each a function that takes it away, or tells what stays and why."""
        self._faults = _faults(os.environ.get(FAULTS, ""))
        self.events = EventFile(folder, faulty="events" in self._faults)
        self.imports = importing.ImportHooks()
        self.off: dict[str, Exception] = {}
        self.trained = False
        self.end_reason = "finished"
        self._before_end: list[Callable[[], object]] = []
        self._at_end: list[Callable[[], object]] = []
        self.on_training: list[Callable[[], object]] = []
        """Called when the first backward pass or optimizer step has made this process a rank."""
        self.before_fork: list[Callable[[], object]] = []
        self.after_fork_in_parent: list[Callable[[], object]] = []
        self.after_fork_in_child: list[Callable[[], object]] = []
        """Called around os.fork. The child is no rank until it trains; what its parent measured is not its own."""
        self.clock: Clock | None = None
        self.sampler: Sampler | None = None
        self.on_batch: list[Callable[[], object]] = []
        """Called when a DataLoader has given a batch."""
        self.compile_activity = 0
        """Goes up whenever Dynamo starts to compile, or gives up."""
        self.optimizer_compiled = False
        """A graph with an optimizer's operators was captured: its step calls no hooks."""
        self.on_optimizer_compiled: list[Callable[[], object]] = []
        """Called when the first such graph was captured, before it runs."""
        self.process_group: dict[str, Any] | None = None
        """Backend, world size and rank of torch.distributed's default group, once there is one."""

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        from trueup_instrument import appliers, isolation, observers, probes

        self.imports.install()
        os.register_at_fork(
            before=lambda: _call_all(self.before_fork),
            after_in_parent=lambda: _call_all(self.after_fork_in_parent),
            after_in_child=self._forked,
        )
        atexit.register(self._end)
        if self.role == role.RANK and os.environ.get("RANK") is not None:
            self.open()
        if isolation.PROBE in os.environ:
            self.guarded(isolation.NAME, isolation.attach)(self)
        appliers.attach_all(self)  # first: observers then see what the appliers leave of each call
        observers.attach_all(self)
        probes.attach_all(self)

    def open(self) -> None:
        """This process matters: open its event file. A rank marks its children as no ranks."""
        if self.events.is_open:
            return
        environment = os.environ
        if self.role != role.LAUNCHER:
            role.own_children()
        self.events.open(
            {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "ppid": os.getppid(),
                "role": self.role,
                "rank": _number(environment.get("RANK")),
                "local_rank": _number(environment.get("LOCAL_RANK")),
                "world_size": _number(environment.get("WORLD_SIZE")),
                "argv": program_words(sys.orig_argv),
                "python": platform.python_version(),
                "executable": sys.executable,
                "variables": without_secrets(
                    {
                        name: value
                        for name, value in environment.items()
                        if name in SHOWN_VARIABLES or name.startswith(SHOWN_PREFIXES)
                    }
                ),
            }
        )

    def mark_trained(self) -> None:
        """A backward pass or an optimizer step happened here: whatever started it, this process is a rank."""
        if not self.trained:
            self.trained = True
            if self.role != role.RANK:
                self.role = role.RANK
            self.open()
            _call_all(self.on_training)

    def before_end(self, function: Callable[[], object]) -> None:
        """Call `function()` when the interpreter ends in an orderly way; it may open the file."""
        self._before_end.append(function)

    def at_end(self, function: Callable[[], object]) -> None:
        """Call `function()` when the interpreter ends in an orderly way, before the `end` event."""
        self._at_end.append(function)

    def detach(self) -> list[str]:
        """End the observation while the program goes on; returns what stays in place, in words, and does nothing."""
        self._end()
        atexit.unregister(self._end)
        self.detached = True
        self.imports.remove()
        stays = [told for take_away in reversed(self.undo) if (told := take_away()) is not None]
        for functions in (self.before_fork, self.after_fork_in_parent, self.after_fork_in_child):
            functions.clear()  # os.register_at_fork takes nothing back
        self.undo.clear()
        self.events.close()
        role.disown_children()
        return stays

    def _forked(self) -> None:
        """A forked child is no rank until it trains; the parent's events are not its own."""
        if self.detached:
            return
        self.events.forget()
        self.trained = False
        self.end_reason = "finished"
        self.role = role.CHILD
        _call_all(self.after_fork_in_child)

    def _end(self) -> None:
        _call_all(self._before_end)
        if self.off and self.role == role.RANK:  # what failed may have been what opens the file
            self.open()
        if not self.events.is_open:
            return
        for function in self._at_end:
            function()
        if self.events.dropped:
            self.write("observer-off", observer="events", error=f"{self.events.dropped} early events were dropped")
        steps = self.clock.steps if self.clock is not None else 0
        self.write("end", reason=self.end_reason, trained=self.trained, steps=steps, process_group=self.process_group)

    def after_torch(self, observer: str, name: str, hook: Callable[[ModuleType], object]) -> None:
        """Call `hook(module)`, guarded, after `name` is imported and torch itself is complete.

        `name` may be what imports torch: it is awaited from now on, as its own import then began before torch's end.
        """
        guarded = self.guarded(observer, hook)
        self.imports.after(name, lambda module: None)
        self.imports.after("torch", lambda torch: self.imports.after(name, guarded))

    def end_now(self) -> None:
        """End this process at once, with everything written: the program went on after it was told to end."""
        self._end()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # closed, or its reader is gone
                pass
        multiprocessing = sys.modules.get("multiprocessing")
        for child in multiprocessing.active_children() if multiprocessing is not None else ():
            child.terminate()  # DataLoader workers, which multiprocessing ends at an orderly exit
        os._exit(0)

    # -- events ------------------------------------------------------------------------------------------------------

    def write(self, kind: str, **fields: Any) -> None:
        self.events.write(kind, **fields)

    def layer(self, layer: str, event: str, module: str | None = None, at: str | None = None, **detail: Any) -> None:
        """Record that a layer of the stack was applied."""
        self.write("layer", layer=layer, event=event, module=module, at=at, detail=detail)

    def request(self, layer: str, setting: str, value: Any, at: str | None = None, source: str | None = None) -> None:
        """Record what configuration or code asks for."""
        self.write("request", layer=layer, setting=setting, value=value, at=at, source=source)

    # -- failure stays ours ------------------------------------------------------------------------------------------

    def guarded(self, name: str, function: Callable[P, R]) -> Callable[P, R | None]:
        """`function`, which from its first failure on does nothing: the failure becomes an `observer-off` event.

        Dynamo looks at nothing that it calls: observation must not show in its counters.
        """
        function = unseen(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
            if self.detached or name in self.off:
                return None
            try:
                if self._faults:
                    self._fail_if_asked(name)
                return function(*args, **kwargs)
            except Exception as error:
                self.switch_off(name, error)
                return None

        return call

    def _fail_if_asked(self, name: str) -> None:
        if name in self._faults:
            self._faults[name] -= 1
        if self._faults.get(name, 1) == 0 or "all" in self._faults:
            raise RuntimeError(f"fault injected into {name}")

    def switch_off(self, name: str, error: Exception) -> None:
        self.off[name] = error
        origin = error.__traceback__
        while origin is not None and origin.tb_next is not None:
            origin = origin.tb_next
        where = f" at {os.path.basename(origin.tb_frame.f_code.co_filename)}:{origin.tb_lineno}" if origin else ""
        from trueup_instrument.secret_texts import text_without_secrets

        told = text_without_secrets(f"{type(error).__name__}: {error}{where}")
        self.write("observer-off", observer=name, error=told[:500])


def _faults(text: str) -> dict[str, int]:
    """{name: calls after which to raise}."""
    named = (fault.partition(":") for fault in text.split(",") if fault)
    return {name: int(number or 1) for name, _, number in named}


def _call_all(functions: list[Callable[[], object]]) -> None:
    for function in functions:
        function()


def _number(text: str | None) -> int | None:
    try:
        return int(text)  # type: ignore[arg-type]  # None is answered like any other text that is no number
    except (TypeError, ValueError):
        return None
