"""Operators of torch.library around functions that Dynamo cannot look into, and the question which of the two to call.

They are defined with `Library.define` and `impl`, not with `custom_op`: in an eager call the Python layers of the
latter cost ten times as much (docs/performance.md).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_KEPT: list[Any] = []
"""The libraries: operators are gone with them."""


def define(torch: Any, name: str, schema: str, run: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """The operator `namespace::name`, which computes `run` on any device and knows the shapes of its results by `fake`.

    Raises RuntimeError where the name is taken, or the schema is none.
    """
    namespace, _, short = name.partition("::")
    library = torch.library.Library(namespace, "FRAGMENT")
    strides = getattr(torch.Tag, "needs_exact_strides", None) or torch.Tag.needs_fixed_stride_order
    library.define(f"{short}{schema}", tags=(torch.Tag.pt2_compliant_tag, strides))
    library.impl(short, run, "CompositeExplicitAutograd")
    torch.library.register_fake(name, fake, lib=library)
    _KEPT.append(library)
    return getattr(getattr(torch.ops, namespace), short).default


def is_defined(torch: Any, name: str) -> bool:
    """Whether an operator `namespace::name` is known to the dispatcher."""
    return bool(torch._C._dispatch_has_kernel(name))


def captures(torch: Any) -> Callable[[], bool]:
    """A function that tells whether what is called now becomes part of a graph, or is seen by a dispatch mode.

    An eager call goes straight to the library's own function. Dynamo folds the first half of the question to True;
    the second holds for selective checkpointing, FakeTensorMode and make_fx, which see operators only.
    """
    is_compiling, modes = torch.compiler.is_compiling, torch._C._len_torch_dispatch_stack

    def captured() -> bool:
        return bool(is_compiling() or modes() > 0)

    return captured


def recorded(torch: Any) -> Any:
    """A context in which autograd records again: the dispatcher leaves it out within an operator."""
    binding = torch._C
    excluded = binding._dispatch_tls_local_exclude_set()
    for key in ("AutogradFunctionality", "ADInplaceOrView"):
        excluded = excluded.remove(getattr(binding.DispatchKey, key))
    return binding._ForceDispatchKeyGuard(binding._dispatch_tls_local_include_set(), excluded)
