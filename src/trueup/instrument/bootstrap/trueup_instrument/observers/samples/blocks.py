"""Which modules ran as plain Python and which inside compiled graphs.

Two signs are joined. A call event of a module's own `forward` code: it ran as plain Python. A call event of
`Module._wrapped_call_impl` with that module: it was called from outside a graph. A module called from outside whose
forward raised no event ran compiled; so did whatever lies beneath it and raised no event. A module beneath a plain one
that was not called at all took no part. Without a compiled region among the operators nothing is compiled.
"""

from __future__ import annotations

import sys

from trueup_instrument import modules
from trueup_instrument.attributes import plain_attribute
from trueup_instrument.frames import innermost_code
from trueup_instrument.observers.samples import parameters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from trueup_instrument.frames import Listener
    from trueup_instrument.sampling import Sample

NAME = "blocks"

EAGER = "eager"
COMPILED = "compiled"
IDLE = "idle"
REGION = "Torch-Compiled Region"


class Window:
    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.eager: dict[int, int] = {}
        """id(module) → calls of its forward as plain Python."""
        self.entered: dict[int, int] = {}
        """id(module) → calls from plain Python."""
        self.evaluated: set[int] = set()
        """id(module) of those whose forward ran as plain Python without gradients: an evaluation within the step."""
        self._has_gradients = sys.modules["torch"].is_grad_enabled

    def listeners(self) -> dict[CodeType, Listener]:
        found: dict[CodeType, Listener] = {}
        for module in self.sample.live:
            for function in (type(module).forward, module.__dict__.get("forward")):
                code = innermost_code(function) if function is not None else None
                if code is not None:
                    found[code] = self._ran
        base = sys.modules["torch"].nn.Module
        for name in ("_wrapped_call_impl", "_call_impl"):
            code = getattr(getattr(base, name, None), "__code__", None)
            if code is not None:
                found[code] = self._entered
                break
        return found

    def _ran(self, frame: FrameType) -> None:
        module = frame.f_locals.get("self")
        key = id(module)
        if self._has_gradients():
            self.eager[key] = self.eager.get(key, 0) + 1
        elif not plain_attribute(module, "training", True):
            self.evaluated.add(key)

    def _entered(self, frame: FrameType) -> None:
        if self._has_gradients():
            key = id(frame.f_locals.get("self"))
            self.entered[key] = self.entered.get(key, 0) + 1

    def fields(self) -> dict[str, Any]:
        regions = self._regions()
        compiled_code_ran = bool(regions) if self.sample.recording else self.sample.session.compile_activity > 0
        took_part = self._trained_of([root for root in self.sample.roots if self._touched(root)])
        if not took_part and compiled_code_ran:
            took_part = self._trained_roots()
        status: dict[int, str] = {}
        for root in took_part:
            # called by a compiled function: no module of it was called from plain Python
            above = None if self._touched(root) else COMPILED
            self._judge(root, above, compiled_code_ran, status)
        outer = self._outer_eager(took_part, status)
        total = compiled = 0
        eager_classes: dict[str, int] = {}
        for root in took_part:
            for module in root.modules():
                elements = modules.own_elements(module)
                state = status.get(id(module), IDLE)
                if elements and state != IDLE:
                    total += elements
                    compiled += elements if state == COMPILED else 0
                    if state == EAGER:
                        name = modules.class_name(module)
                        eager_classes[name] = eager_classes.get(name, 0) + self.eager.get(id(module), 0)
        blocks: list[dict[str, Any]] = []
        counted: set[int] = set()
        for root in took_part:  # accelerate compiles blocks in a copy of the model that shares them
            found = [(id(modules.bare(block)), name, block) for name, block in modules.blocks_of(root)]
            blocks += [self._block(name, block, status) for key, name, block in found if key not in counted]
            counted.update(key for key, _, _ in found)
        return {
            "modules": {
                "roots": [modules.class_name(root) for root in took_part],
                "root_eager": bool(outer) if took_part else None,
                "outer_eager": outer,
                "blocks": blocks,
                "parameters_total": total,
                "parameters_compiled": compiled,
                "eager": eager_classes,
                "evaluated_eager": self._evaluated_eager(took_part, status),
                "regions": sum(regions.values()),
            },
            "training_mode": self._all_train(took_part) if took_part else None,
        }

    def _all_train(self, roots: list[Any]) -> bool:
        return all(plain_attribute(modules.bare(root), "training") is not False for root in roots)

    def _evaluated_eager(self, roots: list[Any], status: dict[int, str]) -> int:
        """How many blocks (roots, where there are none) trained compiled and were evaluated as plain Python."""
        parts = [block for root in roots for _, block in modules.blocks_of(root)] or roots
        inner = [modules.bare(part) for part in parts]
        return sum(id(m) in self.evaluated and status.get(id(m)) == COMPILED for m in inner)

    def _judge(self, module: Any, above: str | None, compiled_code_ran: bool, status: dict[int, str]) -> None:
        """Decide `status` of `module` and of all beneath it; `above` is the status of its parent."""
        key = id(module)
        if key in status:
            return
        if key in self.eager or _is_script(module):
            state = EAGER
        elif above == COMPILED:
            state = COMPILED
        elif key in self.entered:
            state = COMPILED if compiled_code_ran else EAGER
        elif modules.is_container(module):
            state = above if above is not None else IDLE
        else:
            state = IDLE
        status[key] = state
        for child in module._modules.values():
            if child is not None:
                self._judge(child, state, compiled_code_ran, status)

    def _block(self, name: str, block: Any, status: dict[int, str]) -> dict[str, Any]:
        """A block ran compiled when its own forward did and no module with parameters in it ran as plain Python."""
        inner = modules.bare(block)
        own = status.get(id(inner), IDLE)
        plain = [m for m in inner.modules() if status.get(id(m)) == EAGER and modules.own_elements(m)]
        return {
            "name": name,
            "class": modules.class_name(block),
            "status": EAGER if own == COMPILED and plain else own,
            "calls": self.eager.get(id(inner), 0),
            "training": plain_attribute(inner, "training") is not False,
        }

    def _outer_eager(self, roots: list[Any], status: dict[int, str]) -> list[str]:
        """Classes of the modules around the blocks (or of the root) that ran as plain Python."""
        found = []
        for root in roots:
            names = [name for name, _ in modules.blocks_of(root)]
            for name, module in root.named_modules():
                around = any(not name or block.startswith(name + ".") for block in names) if names else module is root
                if (
                    around
                    and not modules.is_container(module)
                    and status.get(id(module)) == EAGER
                    and modules.bare(module) is module
                ):
                    found.append(modules.class_name(module))
        return sorted(set(found))

    def _regions(self) -> dict[str, int]:
        return {name: calls for name, calls in self.sample.operators.counts.items() if name.startswith(REGION)}

    def _touched(self, root: Any) -> bool:
        return any(id(module) in self.eager or id(module) in self.entered for module in root.modules())

    def _trained_of(self, roots: list[Any]) -> list[Any]:
        """Those of `roots` that are trained, when there are such: a teacher or reference model is another matter."""
        held = parameters.of_optimizers(self.sample.session)
        trained = [root for root in roots if any(id(p) in held for p in root.parameters())]
        return trained or [root for root in roots if any(p.requires_grad for p in root.parameters())] or roots

    def _trained_roots(self) -> list[Any]:
        """No module was called from plain Python: a compiled function called them. Those that train took part."""
        return [root for root in self.sample.roots if any(p.grad is not None for p in root.parameters())] or [
            root for root in self.sample.roots if any(p.requires_grad for p in root.parameters())
        ]


def _is_script(module: Any) -> bool:
    """TorchScript runs outside Dynamo's graphs and raises no Python call events."""
    script = getattr(getattr(sys.modules["torch"], "jit", None), "ScriptModule", ())
    return isinstance(module, script) if script else False
