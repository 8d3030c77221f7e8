"""Flash attention of transformers as one piece of one graph, whatever the rows are.

What its own functions ask of values, whether a mask masks anything, whether position ids restart, how many tokens are
real, is asked outside of compiled code (`rows.py`), or answered by shapes alone (`padding.py`).
"""

from __future__ import annotations

from trueup_instrument.bridging.padding import over_padding, permuted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FLASH = "transformers.modeling_flash_attention_utils"
MASKS = "transformers.masking_utils"
VERSIONS = (2, 3, 4)


def is_known(flash: Any) -> bool:
    """Whether this transformers takes boundaries whatever else it is given: since 4.56, as this function tells."""
    return hasattr(flash, "prepare_fa_kwargs_from_position_ids") and hasattr(flash, "_flash_attention_forward")


def without_questions(
    torch: Any, original: Callable[..., Any], tell: Callable[[str], None] = lambda what: None
) -> Callable[..., Any]:
    """`_flash_attention_forward` of transformers, which in a graph reads no values of a mask.

    `tell(what)` is called while a graph is made with what is done another way.
    """
    is_compiling, permute = torch.compiler.is_compiling, permuted(torch)

    def _flash_attention_forward(
        query_states: Any,
        key_states: Any,
        value_states: Any,
        attention_mask: Any,
        query_length: int,
        is_causal: bool,
        **options: Any,
    ) -> Any:
        states = query_states, key_states, value_states
        if is_compiling():
            states = cast(torch, states, options.get("target_dtype"))
            if is_padding(attention_mask, query_states, key_states):
                tell("padding sorted behind the tokens")
                return over_padding(
                    torch,
                    permute,
                    original,
                    states,
                    attention_mask,
                    query_length=query_length,
                    is_causal=is_causal,
                    **options,
                )
            starts = options.get("cu_seq_lens_q")
            if starts is not None and options["cu_seq_lens_k"] is starts:
                options["cu_seq_lens_k"] = options["cu_seq_lens_q"].view(-1)  # see `repeated.py`
        return original(*states, attention_mask, query_length=query_length, is_causal=is_causal, **options)

    return _flash_attention_forward


def cast(torch: Any, states: tuple[Any, Any, Any], dtype: Any) -> tuple[Any, Any, Any]:
    """What `fa_peft_integration_check` does to float32 states, as under autocast, without its line in a log.

    Dynamo breaks the graph at that line in every block.
    """
    if dtype is None or states[0].dtype != torch.float32:
        return states
    query, key, value = states
    return query.to(dtype), key.to(dtype), value.to(dtype)


def is_padding(mask: Any, query: Any, key: Any) -> bool:
    """Whether a mask says which tokens of rows without a cache are real. query, key: (rows, length, heads, size)."""
    if mask is None or mask.ndim != 2:
        return False
    return bool(mask.shape[0] == query.shape[0] and mask.shape[1] == query.shape[1] == key.shape[1])


def mask_unread(torch: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """`flash_attention_mask` of transformers, which in a graph does not ask whether all tokens are real."""
    is_compiling = torch.compiler.is_compiling

    def flash_attention_mask(*args: Any, **options: Any) -> Any:
        mask = options.get("attention_mask")
        if mask is None or not is_compiling():
            return original(*args, **options)
        length = options["kv_length"] if "kv_length" in options else args[2]
        return mask[:, -length:]

    return flash_attention_mask
