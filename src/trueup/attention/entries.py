"""What a program calls, and which kernels can stand behind it, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trueup.attention import model_calls
from trueup.attention.call import Call
from trueup.attention.constraints import Constraint
from trueup.attention.knowledge.flash_attn import FLASH_2
from trueup.attention.knowledge.flex import COMPILED
from trueup.attention.knowledge.hub import BUILDS
from trueup.attention.knowledge.sources import installed, page

SDPA_KERNELS = {
    "flash": "sdpa-flash",
    "efficient": "sdpa-mem-efficient",
    "cudnn": "sdpa-cudnn",
    "math": "sdpa-math",
}
"""torch's word for a kernel → its name on a GPU."""
ON_CPU = ("sdpa-flash-cpu", "sdpa-math")
ALL_SDPA = tuple(dict.fromkeys((*ON_CPU, *SDPA_KERNELS.values())))


def _same(call: Call) -> Call:
    return call


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A function that a program calls, or an `attn_implementation`."""

    name: str
    title: str
    kernels: tuple[str, ...]
    """Names of those that can stand behind it."""
    given: Callable[[Call], Call] = _same
    """The call as the kernel sees it."""
    constraints: tuple[Constraint, ...] = ()
    """What the function itself refuses, whatever the kernel."""
    empty: Callable[[Call], bool] = lambda call: False
    """Whether it answers the call without any kernel: there is nothing to compute."""
    why: Callable[[Call], str] = lambda call: "there is one kernel behind it"
    ordered: Callable[[Call], tuple[str, ...]] | None = None

    def order(self, call: Call) -> tuple[str, ...]:
        """Those of its kernels that a call can take, as they are asked: the first that is not passed over is taken."""
        return self.kernels if self.ordered is None else self.ordered(call)


def sdpa_order(call: Call) -> tuple[str, ...]:
    """torch's own order of preference, or that of sdpa_kernel(..., set_priority=True)."""
    place = call.place
    if place.device == "cpu":
        return ON_CPU
    if place.order:
        return tuple(SDPA_KERNELS[name] for name in place.order)
    if prefers_cudnn(call):
        return tuple(SDPA_KERNELS[name] for name in ("cudnn", "flash", "efficient", "math"))
    return tuple(SDPA_KERNELS[name] for name in ("flash", "efficient", "math", "cudnn"))


def prefers_cudnn(call: Call) -> bool:
    """check_prefer_cudnn_attention of torch, which changed more than once; 2.5.1 took back what 2.5.0 had."""
    place = call.place
    cudnn, capability = place.versions.get("cudnn", ()), place.capability or (0, 0)
    if place.torch >= (2, 10):
        minor = capability[1] in (0, 3) or place.versions.get("cuda", (13,)) >= (13,)
        return cudnn > (9, 15, 0) and capability[0] in (9, 10) and minor
    if place.torch >= (2, 9):
        return cudnn >= (9, 9) and capability in ((9, 0), (10, 0))
    return (2, 5) <= place.torch < (2, 5, 1) and cudnn > (9,) and capability >= (9, 0)


def _sdpa_why(call: Call) -> str:
    return _sdpa_order_in_words(call) + _first_keys_alone(call)


def _first_keys_alone(call: Call) -> str:
    """What surprises who decodes with a cache; the docs of the function have it."""
    if not call.is_causal or call.length >= call.key_length:
        return ""
    return f"; is_causal counts from the first key: of {call.key_length} the last query sees {call.length}"


def _sdpa_order_in_words(call: Call) -> str:
    if call.place.device == "cpu":
        return "torch asks flash, then math"
    set_by_user = ", as sdpa_kernel set it" if call.place.order else ""
    words = {name: word for word, name in SDPA_KERNELS.items()}
    return f"torch asks {', '.join(words[name] for name in sdpa_order(call))}, in this order{set_by_user}"


def _nothing_to_compute(call: Call) -> bool:
    """Seen on torch 2.13: empty values, or no queries. Other empty inputs go through a kernel."""
    return 0 in call.value or call.length == 0


def _sdpa_mask_dtype(call: Call) -> bool:
    return not call.mask.is_tensor or call.mask_dtype in ("bool", "fp32", call.dtype)


SDPA_REFUSES = (
    Constraint(
        about="dimensions",
        needs="2 or more",
        holds=lambda call: min(len(call.query), len(call.key), len(call.value)) >= 2,
        given=lambda call: str(min(len(call.query), len(call.key), len(call.value))),
        source=page("https://github.com/pytorch/pytorch (validate_sdpa_input)", "torch 2.13", "run"),
        raises=True,
    ),
    Constraint(
        about="mask",
        needs="a mask of bool, fp32 or the dtype of the queries",
        holds=_sdpa_mask_dtype,
        given=lambda call: f"a mask of {call.mask_dtype}",
        source=page("https://github.com/pytorch/pytorch (validate_sdpa_input)", "torch 2.13", "run"),
        raises=True,
    ),
    Constraint(
        about="mask",
        needs="a mask of 2 dimensions or more",
        holds=lambda call: not call.mask.is_tensor or len(call.mask_shape) >= 2,
        given=lambda call: f"{len(call.mask_shape)}",
        source=page("https://github.com/pytorch/pytorch (check_attn_mask_shape)", "torch 2.13", "run"),
        raises=True,
    ),
)


WITH_SINKS = "kernels-community/vllm-flash-attn3"


def _flash_order(package: str, least: tuple[int, ...], kernel: str, name: str) -> Callable[[Call], tuple[str, ...]]:
    """The package where it is installed, else the kernel of the hub where `kernels` is.

    Models with attention sinks name the implementations that take them, and transformers takes the first of those in
    place of another (`_compatible_flash_implementations`, modeling_utils.py:1754).
    """
    hub = next(build.repository for build in BUILDS if build.stands_in_for == name)

    def order(call: Call) -> tuple[str, ...]:
        if call.sinks and name != "flash_attention_4":
            return (WITH_SINKS,)
        if not call.place.has(package, least) and call.place.has("kernels"):
            return (hub,)
        return (kernel,)

    return order


def _flash_why(package: str) -> Callable[[Call], str]:
    def why(call: Call) -> str:
        if call.sinks and package != "flash-attn-4":
            return f"for a model with attention sinks transformers takes {WITH_SINKS} instead, with a warning"
        if call.place.has(package):
            return f"{package} is installed"
        return f"{package} is not installed" + (", the package kernels is" if call.place.has("kernels") else "")

    return why


NOT_EMPTY = Constraint(
    about="length",
    needs="no dimension of 0",
    holds=lambda call: 0 not in call.query,
    given=lambda call: "a dimension of 0",
    source=installed("transformers/integrations/flash_attention.py", 49, "transformers 5.24"),
    raises=True,
)


def _flex_order(call: Call) -> tuple[str, ...]:
    if not call.compiled:
        return ("flex-eager",)
    return ("flex", "flex-eager") if COMPILED.is_passed_over(call) else ("flex",)


def _flex_why(call: Call) -> str:
    return "one kernel where torch.compile takes it, else plain operators"


ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="sdpa",
            title="torch.nn.functional.scaled_dot_product_attention",
            kernels=ALL_SDPA,
            ordered=sdpa_order,
            constraints=SDPA_REFUSES,
            empty=_nothing_to_compute,
            why=_sdpa_why,
        ),
        Entry(name="flash_attn", title="flash_attn.flash_attn_func", kernels=("flash-attn-2",)),
        Entry(name="flash_attn_3", title="flash_attn_interface.flash_attn_func", kernels=("flash-attn-3",)),
        Entry(name="flash_attn_4", title="flash_attn.cute.flash_attn_func", kernels=("flash-attn-4",)),
        Entry(name="flex", title="torch.nn.attention.flex_attention.flex_attention", kernels=("flex", "flex-eager"),
            ordered=_flex_order, why=_flex_why),
        Entry(name="varlen_attn", title="torch.nn.attention.varlen.varlen_attn", kernels=("varlen-attn",)),
        Entry(
            name="xformers",
            title="xformers.ops.memory_efficient_attention",
            kernels=("xformers-flash3", "xformers-flash", "xformers-cutlass"),
            why=lambda call: "xformers asks FlashAttention 3, FlashAttention 2, CUTLASS, in this order",
        ),
        Entry(
            name="hf-eager", title='attn_implementation="eager"', kernels=("eager",), given=model_calls.eager,
        ),
        Entry(
            name="hf-sdpa",
            title='attn_implementation="sdpa"',
            kernels=ALL_SDPA,
            ordered=sdpa_order,
            given=model_calls.sdpa,
            constraints=SDPA_REFUSES,
            empty=_nothing_to_compute,
            why=_sdpa_why,
        ),
        Entry(
            name="flash_attention_2",
            title='attn_implementation="flash_attention_2"',
            kernels=("flash-attn-2", "kernels-community/flash-attn2", WITH_SINKS),
            ordered=_flash_order("flash-attn", (2, 3, 3), "flash-attn-2", "flash_attention_2"),
            given=model_calls.flash,
            constraints=(NOT_EMPTY,),
            why=_flash_why("flash-attn"),
        ),
        Entry(
            name="flash_attention_3",
            title='attn_implementation="flash_attention_3"',
            kernels=("flash-attn-3", WITH_SINKS),
            ordered=_flash_order("flash-attn-3", (), "flash-attn-3", "flash_attention_3"),
            given=model_calls.flash_without_dropout,
            constraints=(NOT_EMPTY,),
            why=_flash_why("flash-attn-3"),
        ),
        Entry(
            name="flash_attention_4",
            title='attn_implementation="flash_attention_4"',
            kernels=("flash-attn-4", "kernels-community/flash-attn4"),
            ordered=_flash_order("flash-attn-4", (), "flash-attn-4", "flash_attention_4"),
            given=model_calls.flash_without_dropout,
            constraints=(NOT_EMPTY,),
            why=_flash_why("flash-attn-4"),
        ),
        Entry(
            name="flex_attention",
            title='attn_implementation="flex_attention"',
            kernels=("flex", "flex-eager"),
            ordered=_flex_order,
            why=_flex_why,
            given=model_calls.flex,
        ),
        *(
            Entry(
                name=build.repository,
                title=f'attn_implementation="{build.repository}"',
                kernels=(build.repository,),
                given=model_calls.flash if build.of is FLASH_2 else model_calls.flash_without_dropout,
                constraints=(NOT_EMPTY,),
                why=lambda call: "the model asks for it by name",
            )
            for build in BUILDS
        ),
    )
}  # fmt: skip
"""Name → entry."""
