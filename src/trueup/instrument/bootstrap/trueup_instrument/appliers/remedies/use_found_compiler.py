"""Inductor builds with a C++ compiler that is there, also where the program names another."""

from __future__ import annotations

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    compiler = switch.value["CXX"] if isinstance(switch.value, dict) else None
    if compiler is None:
        switch.cannot("this machine has no g++ of version 9 or newer and no clang++")
        return
    switch.after("torch._inductor.cpp_builder", lambda module: _builder(switch, module, compiler))


def _builder(switch: Switch, module: ModuleType, compiler: str) -> None:
    """Where Inductor looks for the compiler, which it does before each build."""

    def take() -> None:
        cpp = module.config.cpp
        asked = cpp.cxx
        if asked != (None, compiler):
            cpp.cxx = (None, compiler)
            switch.changed(f"torch._inductor.config.cpp.cxx = {compiler}, was {asked}")

    again = switch.guarded(take)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def get_cpp_compiler() -> Any:
            again()
            return original()

        return get_cpp_compiler

    if not replace(module, "get_cpp_compiler", make):
        switch.cannot("this torch looks for its compiler by other means", "torch._inductor.cpp_builder")
