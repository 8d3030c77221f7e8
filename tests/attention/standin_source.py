"""The checks of flash-attn's own extension, in order, as csrc/flash_attn/flash_api.cpp has them."""

import re

FUNCTIONS = {
    "fwd": "mha_fwd",
    "varlen_fwd": "mha_varlen_fwd",
    "bwd": "mha_bwd",
    "varlen_bwd": "mha_varlen_bwd",
    "fwd_kvcache": "mha_fwd_kvcache",
}
SHARED = ("set_params_fprop", "set_params_dgrad", "set_params_splitkv", "set_params_alibi")
CHECK = re.compile(r"\b(TORCH_CHECK|CHECK_DEVICE|CHECK_CONTIGUOUS|CHECK_SHAPE|" + "|".join(SHARED) + r")\(")
WITHOUT_TEXT = "Expected {} to be true, but got false."


def messages(source: str) -> dict[str, list[str]]:
    """For each function of the extension, the messages of its checks in the order in which they are made."""
    source = re.sub(r"//.*", "", source)
    source = re.sub(r"#ifdef FLASHATTENTION_DISABLE_.*?(#else|#endif)", "", source, flags=re.DOTALL)
    bodies = {name: _body(source, name) for name in (*FUNCTIONS.values(), *SHARED)}
    return {ours: _expanded(bodies[theirs], bodies) for ours, theirs in FUNCTIONS.items()}


def _body(source: str, name: str) -> str:
    start = re.search(rf"(\n|void |> ){name}\(", source)
    assert start, name
    opened = source.index(") {", start.end())
    return source[opened : source.index("\n}", opened)]


def _expanded(body: str, bodies: dict[str, str]) -> list[str]:
    found = []
    for call in CHECK.finditer(body):
        name, arguments = call[1], _arguments(body, call.end())
        if name in SHARED:
            found += _expanded(bodies[name], bodies)
        elif name == "TORCH_CHECK":
            texts = re.findall(r'"((?:[^"\\]|\\.)*)"', arguments)
            found.append("".join(texts) if texts else WITHOUT_TEXT.format(arguments))
        elif name == "CHECK_SHAPE":
            tensor, sizes = arguments.split(", ", 1)
            found.append(f"{tensor} must have shape ({sizes})")
        else:
            found.append(f"{arguments} must be " + ("on CUDA" if name == "CHECK_DEVICE" else "contiguous"))
    return found


def _arguments(body: str, start: int) -> str:
    depth = 1
    for end in range(start, len(body)):
        depth += {"(": 1, ")": -1}.get(body[end], 0)
        if depth == 0:
            return body[start:end]
    raise AssertionError(body[start : start + 80])
