"""Post-import hooks: call a function once a module has been imported, without importing it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


class ImportHooks:
    """A meta-path finder that lets the others find, and runs hooks after the module's own code has run."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Callable[[ModuleType], object]]] = {}
        self._searching: set[str] = set()

    def install(self) -> None:
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Look at no import any more."""
        self._hooks.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def after(self, name: str, hook: Callable[[ModuleType], object]) -> None:
        """Call `hook(module)` after module `name` is imported, at once if it already is."""
        module = sys.modules.get(name)
        if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
            hook(module)
        else:
            self._hooks.setdefault(name, []).append(hook)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._hooks or name in self._searching:
            return None
        self._searching.add(name)
        try:
            spec = self._ask_others(name, path, target)
        finally:
            self._searching.discard(name)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            self._hook_loader(spec.loader, name)
        return spec

    def _ask_others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None

    def _hook_loader(self, loader: Any, name: str) -> None:
        """Replace `exec_module` on this loader instance only; the spec stays the one the other finders made."""
        original = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            original(module)
            if module.__name__ == name:
                try:
                    del loader.exec_module
                except AttributeError:
                    pass
                self._run(name, module)

        try:
            loader.exec_module = exec_module
        except AttributeError:  # a loader that takes no attributes: this module stays unobserved
            pass

    def _run(self, name: str, module: ModuleType) -> None:
        """Run the hooks, and those that they ask for meanwhile: the module counts as being imported until they end."""
        while hooks := self._hooks.pop(name, []):
            for hook in hooks:
                hook(module)
