"""One frame of a traceback in each of the ways in which Python, faulthandler, IPython, rich and C++ print it."""

from __future__ import annotations

import re
from functools import lru_cache

from trueup.schema.log import Frame

_PYTHON = re.compile(r"\s*>?\s*File \"(?P<file>[^\"]+)\", line (?P<line>\d+)(?:,? in (?P<function>.+))?$")
_CELL = re.compile(
    r"(?:File )?(?P<file>Cell In ?\[\d+\]|<ipython-input-[^>]+>)(?:, line (?P<line>\d+)| in (?P<function>.+))?.*$"
)
_IPYTHON = re.compile(r"File (?P<file>\S.*?):(?P<line>\d+)(?:, in (?P<function>[\w.<>]+).*)?$")
_OLD_IPYTHON = re.compile(r"(?P<file>(?:/|~|[A-Za-z]:\\)\S+\.py) in (?P<function>[\w.<>]+)\(.*$")
_ARROW = re.compile(r"-+> ?(?P<line>\d+) ?(?P<code>.*)$")
_RICH = re.compile(r"(?P<file>\S.*?):(?P<line>\d+) in (?P<function>\S+)$")
_POINTER = re.compile(r"❱ *(?P<line>\d+)(?: *[│|])* *(?P<code>.*)$")
_NATIVE = re.compile(
    r"\s*frame #(?P<index>\d+): (?P<function>.+?)(?: \+ 0x[0-9a-f]+)?(?: \((?:0x[0-9a-f]+ in )?(?P<file>[^()]*)\))?$"
)
_GDB = re.compile(
    r"#(?P<index>\d+)\s+(?:0x[0-9a-f]+ in )?(?P<function>\S+)\s*\(.*\)(?: (?:from|"
    r"at) (?P<file>\S+?)(?::(?P<line>\d+))?)?$"
)

CARETS = re.compile(r"\s*[~^]+\s*$")
REPEATED = re.compile(r"\s*\[Previous line repeated (\d+) more times?\]$")


@lru_cache(maxsize=4096)
def python_frame(text: str) -> Frame | None:
    """`File "train.py", line 3, in main`, as Python and faulthandler print it."""
    return _frame(_PYTHON.match(text)) if 'File "' in text else None


def notebook_frame(text: str) -> Frame | None:
    """`File ~/train.py:3, in main(x)` or `Cell In[2], line 1`."""
    return _frame(_CELL.match(text) or _IPYTHON.match(text) or _OLD_IPYTHON.match(text))


def arrow(text: str) -> tuple[int, str] | None:
    """Line number and code of `----> 3     main()`."""
    found = _ARROW.match(text)
    return (int(found["line"][:9]), found["code"].strip()) if found else None


def rich_frame(text: str) -> Frame | None:
    """`/job/train.py:3 in main`, inside the box that rich draws."""
    return _frame(_RICH.match(text))


def pointer(text: str) -> str | None:
    """Code of the line that rich points at."""
    found = _POINTER.match(text)
    return found["code"].rstrip(" │") if found else None


def native_frame(text: str) -> Frame | None:
    """`frame #3: c10::foo() + 0x12 (0x7f in /lib/libc10.so)` or a line of gdb's backtrace."""
    found = _NATIVE.match(text) or _GDB.match(text)
    if not found:
        return None
    return Frame(file=found["file"] or "?", function=found["function"][:500])


def _frame(found: re.Match[str] | None) -> Frame | None:
    if not found:
        return None
    values = found.groupdict()
    line, function = values.get("line"), values.get("function")
    return Frame(
        file=found["file"], line=int(line[:9]) if line else None, function=function.strip() if function else None
    )
