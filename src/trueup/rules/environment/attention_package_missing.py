"""A FlashAttention implementation was asked for, and its package is not installed."""

from __future__ import annotations

import re

from trueup.rules.definition import Rule, Sighting
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Failure, Log
from trueup.schema.record import Record

MODULE = r"flash_attn(?:_interface|_3|\.cute(?:\.interface)?)?"
MISSING = re.compile(
    r"FlashAttention ?(?P<asked>\d) has been toggled on, but it cannot be used due to the following error:\s+"
    r"the package (?:for FlashAttention ?\d doesn.?t seem to be installed|flash_attn\w* seems to be not installed)"
    r"|^(?:ImportError: )?Flash ?Attention (?P<old>2)(?:\.0)? is not available\. Please refer to the documentation of "
    rf"|No module named '?(?P<module>{MODULE})'?(?![\w.])"
    r"|packages that were not found in your environment:[^\n]*?\bflash[_-]attn\b",
)
"""transformers 4.35 to 5.x (its check, `preface` and all), 4.34; Python; transformers' check of a model's own code."""
TYPES = ("ImportError", "ModuleNotFoundError")
BROKEN = re.compile(r"undefined symbol|cannot open shared object|DLL load failed|version .\S+. not found")
"""What the loader says of a package that is there and does not load."""
IMPORT_OF = re.compile(r"^RuntimeError: Failed to import ")
AFTER = 3
"""Lines that may follow the last one of a process that died, such as a shell's."""


def detect_log(log: Log) -> Sighting | None:
    for failure in log.failures:
        found = _found(failure.printed) if failure.kind in ("exception", "message") else None
        if found is None or failure.role != "root" or not failure.type or _broken(failure) or _went_on(log, failure):
            continue
        line = failure.printed[found.start() :].partition("\n")[0]
        return Sighting(
            message=_message(found),
            evidence=(
                Evidence(what="printed", value=line[:300], at=f"line {failure.first_line}", ranks=failure.ranks),
            ),
            confidence="possible" if found["module"] and _not_last(log, failure) else "established",
            failure=failure,
        )
    return None


def detect(record: Record) -> Sighting | None:
    for rank in record.ranks:
        raised = (rank.error or "").partition("\ncaused by ")[0]
        found = _found(raised)
        if found is not None and not BROKEN.search(rank.error or ""):
            return Sighting(
                message=_message(found),
                evidence=(Evidence(what="uncaught exception", value=raised.partition("\nat ")[0], ranks=(rank.rank,)),),
            )
    return None


def _found(printed: str) -> re.Match[str] | None:
    """Where an exception that nobody caught says it itself; what it was raised from may have been caught."""
    kind = printed.partition(":")[0].rpartition(".")[2]
    return MISSING.search(printed) if kind in TYPES or IMPORT_OF.match(printed) else None


def _broken(failure: Failure) -> bool:
    return any(BROKEN.search(each.printed) for each in (failure, *failure.causes))


def _went_on(log: Log, failure: Failure) -> bool:
    """True when the same process failed of something else later: it had printed what it caught."""
    return any(
        later.kind == "exception"
        and later.role == "root"
        and later.rank == failure.rank
        and later.first_line > failure.last_line
        and _found(later.printed) is None
        for later in log.failures
    )


def _not_last(log: Log, failure: Failure) -> bool:
    """True when a whole traceback is followed by more than a launcher's summary: it may have been printed as caught."""
    followed = any(each.first_line > failure.last_line and each.role in ("summary", "cascade") for each in log.failures)
    last = failure.last_line - failure.printed.count("\n")  # what follows without a mark of its own may count to it
    return bool(failure.frames) and not followed and log.lines - last > AFTER


def _message(found: re.Match[str]) -> str:
    version = found["asked"] or found["old"]
    if version:
        return f"FlashAttention {version} was asked for, and its package is not installed in this environment."
    return f"{found['module'] or 'flash_attn'} is imported, and its package is not installed in this environment."


RULE = Rule(
    id="environment/attention-package-missing",
    title="FlashAttention is asked for, and its package is not installed",
    layers=("environment", "attention"),
    severity="error",
    silent="",
    cause=(
        "attn_implementation=flash_attention_2 (3, 4) and code that imports flash_attn need a package that neither "
        "torch nor transformers brings."
    ),
    remedies=(
        Remedy(
            id="show-fitting-wheel",
            kind="install",
            automatic=False,
            how="trueup doctor --for flash-attn, which names the wheel that fits this environment and the line to "
            "install it",
        ),
        Remedy(
            id="sdpa-instead-of-flash-package",
            kind="code",
            automatic=False,
            how='attn_implementation="sdpa": torch brings its own flash kernels',
        ),
    ),
    caution=(
        "A package that is there and does not load (undefined symbol, a missing library, a missing flash_attn_2_cuda) "
        "is another fault; an ImportError that the program caught is none."
    ),
    from_record=detect,
    from_log=detect_log,
)
