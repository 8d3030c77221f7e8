"""C++ names for people: `_ZN3c104cuda9SetDeviceEa` → `c10::cuda::SetDevice(signed char)`.

Covers the part of the Itanium C++ ABI that occurs in the interfaces of libraries
(https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling). What it does not cover (expressions, `decltype`) and what
is damaged comes back as it was. The length of what is built is bounded: substitutions let a short name stand for an
endless one.
"""

from __future__ import annotations

from typing import NamedTuple

LONGEST = 8192
DEEPEST = 60

BUILTINS = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double",
    "e": "long double", "g": "__float128", "z": "...", "Di": "char32_t", "Ds": "char16_t", "Du": "char8_t",
    "Dn": "decltype(nullptr)", "Da": "auto", "Dh": "half",
}  # fmt: skip
OPERATORS = {
    "nw": " new", "na": " new[]", "dl": " delete", "da": " delete[]", "ng": "-", "ad": "&", "de": "*", "co": "~",
    "pl": "+", "mi": "-", "ml": "*", "dv": "/", "rm": "%", "an": "&", "or": "|", "eo": "^", "aS": "=", "pL": "+=",
    "mI": "-=", "mL": "*=", "dV": "/=", "rM": "%=", "aN": "&=", "oR": "|=", "eO": "^=", "ls": "<<", "rs": ">>",
    "lS": "<<=", "rS": ">>=", "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "nt": "!",
    "aa": "&&", "oo": "||", "pp": "++", "mm": "--", "cm": ",", "pm": "->*", "pt": "->", "cl": "()", "ix": "[]",
    "ss": "<=>",
}  # fmt: skip
STANDARD = {
    "a": "std::allocator", "b": "std::basic_string", "s": "std::string", "i": "std::istream", "o": "std::ostream",
    "d": "std::iostream",
}  # fmt: skip
SPECIAL = {"V": "vtable for ", "T": "VTT for ", "I": "typeinfo for ", "S": "typeinfo name for "}
LONG_STRINGS = (
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>",
    "std::basic_string<char, std::char_traits<char>, std::allocator<char>>",
)
LITERAL_SUFFIXES = {"j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}


class NotCovered(Exception):
    """The name is damaged, or uses a part of the grammar that is not covered."""


class Kind(NamedTuple):
    """A type as written around a declarator: `void (` and `)(int)` for a function, else all of it on the left."""

    left: str
    right: str = ""
    function: bool = False

    def __str__(self) -> str:
        # A bare function type is written without the parentheses that hold a `*` in a pointer to one.
        if not self.function:
            return self.left + self.right
        return f"{self.left[:-1]}{self.right[2:] if self.right.startswith(') [') else self.right[1:]}"

    def suffixed(self, mark: str) -> Kind:
        return Kind(self.left + mark, self.right)


def demangled(name: str) -> str:
    """The name as C++ writes it, or `name` itself when it is not a C++ name or is not covered."""
    if not name.startswith("_Z") or len(name) > LONGEST:
        return name
    try:
        reader = Reader(name)
        text = reader.encoding()
    except (NotCovered, RecursionError):
        return name
    if reader.at != len(name):
        return name
    return text.replace(LONG_STRINGS[0], "std::__cxx11::string").replace(LONG_STRINGS[1], "std::string")


class Reader:
    """One pass over one mangled name."""

    def __init__(self, name: str) -> None:
        self.name, self.at, self.depth, self.built = name, 2, 0, 0
        self.substitutions: list[Kind] = []
        self.arguments: list[list[str]] = []
        """Template arguments of the function that is read; a list for each, since one may be a pack."""
        self.pack: list[str] | None = None
        self.templated = self.plain = False

    # Characters

    def peek(self, text: str) -> bool:
        return self.name.startswith(text, self.at)

    def take(self, text: str) -> bool:
        found = self.peek(text)
        self.at += len(text) if found else 0
        return found

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise NotCovered

    def next(self, count: int = 1) -> str:
        text = self.name[self.at : self.at + count]
        if len(text) != count:
            raise NotCovered
        self.at += count
        return text

    def number(self) -> int:
        start = self.at
        while self.at < len(self.name) and self.name[self.at].isdigit():
            self.at += 1
        if start == self.at or self.at - start > 9:
            raise NotCovered
        return int(self.name[start : self.at])

    def sequence(self, digits: str) -> int:
        """`_` is 0, `0_` is 1, ... in base `len(digits)`."""
        if self.take("_"):
            return 0
        value = 0
        while not self.take("_"):
            value = value * len(digits) + digits.find(digit) if (digit := self.next()) in digits else -1
            if not 0 <= value < 100_000:
                raise NotCovered
        return value + 1

    def bounded(self, text: str) -> str:
        self.built += len(text)
        if len(text) > LONGEST or self.built > 64 * LONGEST:
            raise NotCovered
        return text

    def remember(self, kind: Kind) -> Kind:
        self.bounded(kind.left + kind.right)
        self.substitutions.append(kind)
        return kind

    # Grammar

    def encoding(self, local: bool = False) -> str:
        if self.take("T"):
            return self.special()
        if self.take("GV"):
            return f"guard variable for {self.path()[0]}"
        name, qualifiers = self.path()
        templated, plain = self.templated, self.plain
        if self.at == len(self.name) or self.peek("E") or self.peek("."):
            return name
        result = f"{self.kind()} " if templated and not plain else ""
        if local:
            result = ""
        return self.bounded(f"{result}{name}({self.parameters()}){qualifiers}")

    def special(self) -> str:
        what = self.next()
        if what in SPECIAL:
            return SPECIAL[what] + str(self.kind())
        if what in "hv":
            for _ in range(2 if what == "v" else 1):
                self.take("n")
                self.number()
                self.expect("_")
                if what == "v" and self.name[self.at - 1] == "_":
                    continue
            return f"{'virtual' if what == 'v' else 'non-virtual'} thunk to {self.encoding()}"
        raise NotCovered

    def parameters(self) -> str:
        kinds = []
        while self.at < len(self.name) and not self.peek("E") and not self.peek("."):
            kinds.append(str(self.kind()))
        return "" if kinds == ["void"] else self.bounded(", ".join(kind for kind in kinds if kind))

    def path(self) -> tuple[str, str]:
        """A name with all that encloses it, and what stands behind the parameters of a member function."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise NotCovered
        try:
            if self.take("N"):
                return self.nested()
            if self.take("Z"):
                return self.local()
            return self.unscoped(), ""
        finally:
            self.depth -= 1

    def local(self) -> tuple[str, str]:
        function = self.encoding(local=True)
        self.expect("E")
        if self.take("s"):
            return f"{function}::string literal", ""
        if self.take("d"):
            raise NotCovered
        name, qualifiers = self.path()
        if self.take("_"):
            self.next()
        return self.bounded(f"{function}::{name}"), qualifiers

    def unscoped(self) -> str:
        if self.peek("S") and not self.peek("St"):
            name = str(self.substitution())
        else:
            prefix = "std::" if self.take("St") else ""
            name = prefix + self.unqualified("")
            if self.peek("I"):
                self.remember(Kind(name))
        self.templated = self.peek("I")
        self.plain = False
        return self.with_arguments(name) if self.templated else name

    def nested(self) -> tuple[str, str]:
        qualifiers = ""
        for mark, word in (("r", " restrict"), ("V", " volatile"), ("K", " const"), ("R", " &"), ("O", " &&")):
            if self.take(mark):
                qualifiers += word
        name, last, templated, plain = "", "", False, False
        while not self.take("E"):
            if self.peek("I") and name:
                name, templated = self.with_arguments(name), True
            elif self.peek("S") and not self.peek("St"):
                name = str(self.substitution())
                last = name.split("<")[0].rpartition("::")[2]
                continue
            elif self.peek("T"):
                name = last = str(self.template_parameter())
            elif self.take("St"):
                name = "std"
                continue
            else:
                plain = self.peek("C") or self.peek("D") or self.peek("cv")
                part = self.unqualified(last)
                last, name, templated = part, f"{name}::{part}" if name else part, False
            if not self.peek("E"):
                self.remember(Kind(self.bounded(name)))
        self.templated, self.plain = templated, plain
        return name, qualifiers

    def unqualified(self, enclosing: str) -> str:
        if self.name[self.at : self.at + 1].isdigit():
            length = self.number()
            name = self.next(length)
            name = "(anonymous namespace)" if name.startswith("_GLOBAL__N") else name
        elif self.peek("C") and enclosing:
            self.next(2)
            name = enclosing
        elif self.peek("D") and enclosing and self.name[self.at + 1 : self.at + 2] in "012345":
            self.next(2)
            name = f"~{enclosing}"
        elif self.take("L"):
            return self.unqualified(enclosing)
        elif self.take("Ut"):
            name = f"{{unnamed type#{self.sequence('0123456789') + 1}}}"
        elif self.take("Ul"):
            parameters = self.parameters()
            self.expect("E")
            name = f"{{lambda({parameters})#{self.sequence('0123456789') + 1}}}"
        elif self.take("cv"):
            name = f"operator {self.kind()}"
        elif self.take("li"):
            name = f'operator"" {self.next(self.number())}'
        else:
            code = self.next(2)
            if code not in OPERATORS:
                raise NotCovered
            name = f"operator{OPERATORS[code]}"
        while self.take("B"):
            name += f"[abi:{self.next(self.number())}]"
        return name

    def with_arguments(self, name: str) -> str:
        self.arguments = self.template_arguments()
        shown = ", ".join(part for argument in self.arguments for part in argument)
        return self.bounded(f"{name}{' ' if name.endswith('operator<') else ''}<{shown}>")

    def template_arguments(self) -> list[list[str]]:
        self.expect("I")
        arguments = []
        while not self.take("E"):
            arguments.append(self.template_argument())
        return arguments

    def template_argument(self) -> list[str]:
        if self.take("L"):
            return [self.literal()]
        if self.take("J"):
            pack = []
            while not self.take("E"):
                pack += self.template_argument()
            return pack
        if self.peek("X"):
            raise NotCovered
        kind = str(self.kind())
        return [kind] if kind else []

    def literal(self) -> str:
        if self.take("_Z"):
            text = self.encoding()
            self.expect("E")
            return f"&({text})" if "(" in text else text
        letter = self.name[self.at : self.at + 1]
        kind = str(self.kind())
        end = self.name.find("E", self.at)
        if end < 0:
            raise NotCovered
        digits = self.next(end - self.at).replace("n", "-")
        self.expect("E")
        if letter == "b":
            return {"0": "false", "1": "true"}.get(digits, digits)
        if letter == "i":
            return digits
        return digits + LITERAL_SUFFIXES[letter] if letter in LITERAL_SUFFIXES else f"({kind}){digits}"

    def kind(self) -> Kind:
        self.depth += 1
        if self.depth > DEEPEST:
            raise NotCovered
        try:
            return self.kind_inside()
        finally:
            self.depth -= 1

    def kind_inside(self) -> Kind:
        for width in (2, 1):
            code = self.name[self.at : self.at + width]
            if code in BUILTINS:
                self.at += len(code)
                return Kind(BUILTINS[code])
        if self.take("P"):
            return self.remember(self.kind().suffixed("*"))
        if self.take("R"):
            return self.remember(self.reference("&"))
        if self.take("O"):
            return self.remember(self.reference("&&"))
        if self.peek("K") or self.peek("V") or self.peek("r"):
            return self.qualified()
        if self.take("F"):
            self.take("Y")
            result, parameters = self.kind(), self.parameters()
            self.expect("E")
            return self.remember(Kind(f"{result.left} (", f")({parameters}){result.right}", function=True))
        if self.take("A"):
            size = self.number()
            self.expect("_")
            item = self.kind()
            return self.remember(Kind(f"{item.left} (", f") [{size}]{item.right}", function=True))
        if self.take("M"):
            owner, member = str(self.kind()), self.kind()
            space = "" if member.function else " "
            return self.remember(Kind(f"{member.left}{space}{owner}::*", member.right))
        if self.take("Dp"):
            return self.expansion()
        if self.peek("T"):
            parameter = self.remember(self.template_parameter())
            return self.remember(Kind(self.with_inner(str(parameter)))) if self.peek("I") else parameter
        if self.peek("S") and not self.peek("St"):
            kind = self.substitution()
            return self.remember(Kind(self.with_inner(str(kind)))) if self.peek("I") else kind
        if self.take("u"):
            return self.remember(Kind(self.next(self.number())))
        if self.peek("D"):
            raise NotCovered
        return self.remember(Kind(self.class_name()))

    def class_name(self) -> str:
        """A class or enumeration; the template arguments of the function around it stay the current ones."""
        arguments, templated, plain = self.arguments, self.templated, self.plain
        name = self.path()[0]
        self.arguments, self.templated, self.plain = arguments, templated, plain
        return name

    def with_inner(self, name: str) -> str:
        arguments = self.arguments
        text = self.with_arguments(name)
        self.arguments = arguments
        return text

    def qualified(self) -> Kind:
        words = ""
        for mark, word in (("r", " restrict"), ("V", " volatile"), ("K", " const")):
            if self.take(mark):
                words += word
        kind = self.kind()
        if kind.left.endswith(words):
            words = ""  # a template argument brought the same qualifier
        if kind.function:
            return self.remember(Kind(kind.left, kind.right + words, function=True))
        return self.remember(Kind(kind.left + words, kind.right))

    def reference(self, mark: str) -> Kind:
        kind = self.kind()
        if not kind.function and kind.left.endswith("&"):
            # References to references collapse: only && on && stays &&.
            kept = kind.left.rstrip("&")
            return Kind(kept + ("&&" if mark == "&&" and kind.left.endswith("&&") else "&"), kind.right)
        return kind.suffixed(mark)

    def template_parameter(self) -> Kind:
        self.expect("T")
        index = self.sequence("0123456789")
        if index >= len(self.arguments):
            raise NotCovered
        argument = self.arguments[index]
        if len(argument) != 1:
            self.pack = argument
        return Kind(", ".join(argument))

    def expansion(self) -> Kind:
        """A pattern for each element of a pack; several elements are covered where the pattern is the bare element."""
        outer, self.pack, bare = self.pack, None, self.peek("T")
        kind = self.kind()
        pack, self.pack = self.pack, outer
        if pack and not bare:
            raise NotCovered
        return self.remember(Kind("") if pack == [] else kind)

    def substitution(self) -> Kind:
        self.expect("S")
        letter = self.name[self.at : self.at + 1]
        if letter in STANDARD:
            self.at += 1
            return Kind(STANDARD[letter])
        index = self.sequence("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        if index >= len(self.substitutions):
            raise NotCovered
        return self.substitutions[index]
