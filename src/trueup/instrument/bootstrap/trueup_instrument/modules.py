"""The models of this process: found among the live objects, with their blocks.

A block is one of a row of equal modules: the members of a ModuleList, ModuleDict or Sequential that share a class and
hold parameters; a list in a list is no block, its members are, and so is a stage, a Sequential of equal blocks.
Wrappers (FSDP1, DDP, activation checkpoint, torch.compile) are looked through.
"""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WRAPPED = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
SIMPLE = ("Linear", "Embedding", "LayerNorm", "RMSNorm", "Conv1d", "Conv2d", "Dropout", "ReLU", "GELU", "SiLU")


def bare(module: Any) -> Any:
    """The user's module beneath the wrappers around it."""
    while True:
        for name in WRAPPED:
            beneath = module._modules.get(name)
            if beneath is not None:
                module = beneath
                break
        else:
            if type(module).__name__ in ("DistributedDataParallel", "DataParallel") and "module" in module._modules:
                module = module._modules["module"]
                continue
            return module


def beneath_adapters(module: Any) -> Any:
    """The user's model beneath PEFT's two wrappers: the PeftModel, and the tuner (LoraModel, ...) within."""
    for wrapper, name in (("PeftModel", "base_model"), ("BaseTuner", "model")):
        if any(base.__name__ == wrapper for base in type(module).__mro__):
            module = module._modules.get(name, module)
    return module


def class_name(module: Any) -> str:
    """Name of the module's own class; FSDP2 puts `FSDP` before it by making a subclass at run time."""
    kind = type(bare(module))
    own = next((base for base in kind.__mro__[1:] if kind.__name__ == "FSDP" + base.__name__), kind)
    return own.__name__


def live_modules() -> list[Any]:
    """Every nn.Module that is alive, but for the graphs that torch.compile itself makes modules of."""
    base = sys.modules["torch"].nn.Module
    known: dict[type[Any], bool] = {}
    found = []
    for thing in gc.get_objects():
        kind = type(thing)
        is_module = known.get(kind)
        if is_module is None:
            is_module = known[kind] = issubclass(kind, base) and not any(
                b.__name__ == "GraphModule" for b in kind.__mro__
            )
        if is_module and "_modules" in thing.__dict__:
            found.append(thing)
    return found


def roots_of(modules: list[Any]) -> list[Any]:
    """Those of `modules` that own parameters and are no part of another one."""
    parts = {id(child) for module in modules for child in module._modules.values() if child is not None}
    return [module for module in modules if id(module) not in parts and next(module.parameters(), None) is not None]


def blocks_of(root: Any) -> list[tuple[str, Any]]:
    """[(name, block)] of the outermost rows of equal modules below `root`, in order."""
    found: list[tuple[str, Any]] = []
    _search(root, "", found, set())
    return found


def _search(module: Any, prefix: str, found: list[tuple[str, Any]], seen: set[int]) -> None:
    if id(module) in seen:
        return
    seen.add(id(module))
    row = _row(module)
    for name, child in module._modules.items():
        if child is None:
            continue
        path = f"{prefix}.{name}" if prefix else name
        if id(child) in row:
            found.append((path, child))
        else:
            _search(child, path, found, seen)


def _row(module: Any) -> set[int]:
    """Ids of the children of a container that make a row: two or more of one class, composed, with parameters."""
    if type(bare(module)).__name__ not in ("ModuleList", "ModuleDict", "Sequential") and not _is_list(module):
        return set()
    rows: dict[str, list[int]] = {}
    for child in module._modules.values():
        if child is not None and _is_composed(child) and not is_container(child) and not is_stage(child):
            rows.setdefault(class_name(child), []).append(id(child))
    return {key for row in rows.values() if len(row) > 1 for key in row}


def is_stage(module: Any) -> bool:
    """A Sequential of modules of one class and nothing else, two at least alike within: what it holds are blocks."""
    inner = bare(module)
    if not isinstance(inner, sys.modules["torch"].nn.Sequential):
        return False
    members = [child for child in inner._modules.values() if child is not None]
    if len(_row(inner)) != len(members):
        return False
    return len({tuple(name for name, _ in bare(member).named_parameters()) for member in members}) < len(members)


def _is_list(module: Any) -> bool:
    nn = sys.modules["torch"].nn
    return isinstance(module, (nn.ModuleList, nn.ModuleDict, nn.Sequential))


def is_container(module: Any) -> bool:
    """A module without a forward of its own (ModuleList, ModuleDict): it is never called, its members are."""
    nn = sys.modules["torch"].nn
    return isinstance(module, (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict))


def _is_composed(module: Any) -> bool:
    inner = bare(module)
    return bool(inner._modules) and next(inner.parameters(), None) is not None


def own_elements(module: Any) -> int:
    """Parameter elements that `module` holds itself, not through its children."""
    return sum(parameter.numel() for parameter in module._parameters.values() if parameter is not None)


def shared_parameters(module: Any) -> list[tuple[str, ...]]:
    """The names of each parameter that `module` holds under more than one: tied weights."""
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [tuple(several) for several in names.values() if len(several) > 1]


def come_apart(module: Any, shared: list[tuple[str, ...]]) -> list[str]:
    """Those of `shared`, tied weights of earlier, that are now parameters of their own: `head.weight, embed.weight`."""
    now = {name: id(parameter) for name, parameter in module.named_parameters(remove_duplicate=False)}
    return [", ".join(names) for names in shared if len({now.get(name) for name in names}) > 1]
