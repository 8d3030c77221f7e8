"""What the name of a missing C++ symbol tells about the build of the extension that asks for it.

Mangled names follow https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from trueup.environment.ladder import ladder
from trueup.rules.expression import Expression
from trueup.schema.finding import Remedy

StringAbi = Literal["cxx11", "old"]

UNDEFINED = (
    r"(?:(?:undefined symbol|Symbol not found): |(?m:^)(?=_ZNK?(?:3c10|2at|5torch|6caffe2)))"
    r"(?P<symbol>_\w+|[a-z]\w*(?:::[~\w]+)+(?:\([^\n]*\))?|\w+)"
)
FILE = Expression(r"(?P<file>[^\s:()\[\],]+\.(?:so|pyd|dylib)[\w.]*)")
TORCH = Expression(r"3c10|2at\d|N2at|5torch|6caffe2|THP|aoti_torch|c10::|c10_cuda|at::|torch::")
NEW_STRING = Expression(r"__cxx11|B5cxx11")
OLD_STRING = Expression(r"Ss|\bstd::(?:string|basic_string)\b")
NUMBER = Expression(r"[1-9]\d*")
SUBSTITUTION = Expression(r"[ST][0-9A-Z]*_")
RETURNS_STRING = Expression(r"(?:4Node4name|8toString|10TensorImpl\w*9type_name|4typeB?|4what)Ev$")
"""Functions without arguments that return a string: the new ABI marks their names, the old one does not."""

CUT = Expression(
    r"5ErrorC[12]E?(?:NS_14SourceLocationE?)?$|14torchCheckFail(?:E?|EPKcS2_j)$|23torchInternalAssertFailE?$"
)
"""Functions that take a string, whose names end where their arguments should stand."""

DISTRIBUTIONS = (
    ("flash_attn_3", "flash_attn_3"),
    ("flash_attn", "flash-attn"),
    ("flashattn_hopper", "flash_attn_3"),
    ("fused_dense_lib", "flash-attn"),
    ("dropout_layer_norm", "flash-attn"),
    ("rotary_emb", "flash-attn"),
    ("xentropy_cuda_lib", "flash-attn"),
    ("transformer_engine", "transformer-engine"),
    ("causal_conv1d", "causal-conv1d"),
    ("selective_scan", "mamba-ssm"),
    ("libbitsandbytes", "bitsandbytes"),
    ("amp_C", "apex"),
    ("fused_layer_norm", "apex"),
)
"""Part of the name of an extension → the distribution that holds it, where the folder does not say."""


class MissingSymbol(msgspec.Struct, frozen=True):
    """A symbol that the loader did not find."""

    symbol: str
    file: str | None = None
    """The extension that asks for it."""

    @property
    def of_torch(self) -> bool:
        """True for a symbol that libtorch or libc10 would define."""
        return bool(TORCH.search(self.symbol)) and not self._torch_asks

    @property
    def _torch_asks(self) -> bool:
        """libtorch itself misses it: torch is damaged or mixed, no extension is to blame."""
        return bool(self.file) and "/torch/lib/" in str(self.file)

    @property
    def takes_string(self) -> bool:
        """True when a std::string is in its signature, also where the name is cut before it tells of which ABI."""
        return self.string_abi is not None or bool(CUT.search(self.symbol))

    @property
    def string_abi(self) -> StringAbi | None:
        """The ABI of the std::string in its signature; None when no string is in it."""
        if NEW_STRING.search(self.symbol):
            return "cxx11"
        without_names = skeleton(self.symbol)
        if OLD_STRING.search(without_names) or RETURNS_STRING.search(self.symbol):
            return "old"
        return None

    @property
    def built_for(self) -> str | None:
        """The torch that the extension was built for, where the signature tells it: `torch 2.3 to 2.7`."""
        return ladder().in_words([self.symbol])

    @property
    def distribution(self) -> str | None:
        """The package to install again: `flash-attn`."""
        return distribution_of(self.file) if self.file else None


def missing_symbol(text: str) -> MissingSymbol | None:
    """The symbol that a loader's message names, with the file in front of it."""
    found = re.search(UNDEFINED, text)
    if not found:
        return None
    files = FILE.findall(text[: found.start()])
    symbol = found["symbol"]
    if symbol.startswith("__Z"):  # Mach-O puts one underscore before every name
        symbol = symbol[1:]
    return MissingSymbol(symbol, files[-1] if files else None)


def skeleton(symbol: str) -> str:
    """A mangled name without its identifiers, so that what is left are the types."""
    if not symbol.startswith("_Z"):
        return symbol
    left, at = [], 0
    while at < len(symbol):
        number = NUMBER.match(symbol, at)
        substitution = SUBSTITUTION.match(symbol, at)
        if number:
            at = number.end() + int(number.group())
        elif substitution:
            at = substitution.end()
        else:
            left.append(symbol[at])
            at += 1
    return "".join(left)


def for_package(remedies: tuple[Remedy, ...], name: str | None) -> tuple[Remedy, ...]:
    """The remedies with the name of the package where they say PACKAGE; none, hence the rule's own, without a name."""
    if not name:
        return ()
    return tuple(msgspec.structs.replace(remedy, how=remedy.how.replace("PACKAGE", name)) for remedy in remedies)


def distribution_of(file: str) -> str | None:
    """The distribution that an extension belongs to, by its folder or its name."""
    path = file.replace("\\", "/")
    name = path.rpartition("/")[2]
    known = next((distribution for part, distribution in DISTRIBUTIONS if part in name), None)
    if known:
        return known
    folder = re.search(r"(?:site|dist)-packages/([A-Za-z]\w*)/", path)
    if folder:
        return folder[1].replace("_", "-")
    return None
