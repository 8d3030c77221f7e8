"""Whether a run of a candidate shows the fault of the job."""

from __future__ import annotations

import msgspec

from trueup.procedures.bisection.oracle import Oracle
from trueup.procedures.bisection.signatures import alike, ended, failed_first, parted
from trueup.schema.bisection import Outcome, Signature
from trueup.schema.record import Exit, Record

RAISED = frozenset({"exception", "exit", "memory", "hang"})
"""Kinds of faults that end a job, or keep it from ending."""
ASSERTED = frozenset({"not finite", "loss", "slow"})
"""Kinds that a script tests by itself: a record of it has nothing to compare with, or ends before the step."""
COMPARED = frozenset({"loss", "slow"})
"""Those of them that nothing else tells."""
ASSERTION = "AssertionError"
STALE = 124
"""Exit code of a run whose time was over."""


def judged(signature: Signature, record: Record, tests: bool) -> tuple[Outcome, str]:
    """The outcome of an observed run. `tests`: whether the script ends by an assertion of its own on a silent fault."""
    if signature.kind in RAISED:
        return Oracle(signature).outcome(record)
    asserted = _asserted(record)
    if record.exit.code and not asserted:
        return "unresolved", ended(record)
    if signature.kind in ASSERTED and tests:
        return ("fails", ended(record)) if asserted else ("passes", "ended well")
    if signature.kind in COMPARED:
        return "unresolved", "there is nothing to compare with"
    outcome, why = Oracle(signature).outcome(msgspec.structs.replace(record, exit=Exit(code=0)))
    if asserted and outcome != "fails":
        return "unresolved", f"{ended(record)}, and {why}"
    if outcome == "fails" and tests and not asserted:
        return "unresolved", f"{why}, which the script does not see"
    return outcome, why


def _asserted(record: Record) -> bool:
    rank = failed_first(record)
    return bool(record.exit.code) and rank is not None and parted(rank.error or "")[0] == ASSERTION


def judged_plainly(signature: Signature, code: int, output: str, tests: bool) -> tuple[Outcome, str]:
    """The outcome of a run without trueup, by its exit code, 124 for one that did not end, and its output."""
    if signature.kind == "hang":
        return ("fails", "hangs") if code == STALE else ("unresolved" if code else "passes", f"exit code {code}")
    if code == STALE:
        return "unresolved", "did not end in its time"
    if code == 0:
        return ("unresolved", "shows under trueup only") if not _shows(signature, tests) else ("passes", "ended well")
    if signature.kind not in RAISED:
        return ("fails" if ASSERTION in output else "unresolved"), f"exit code {code}"
    if signature.kind == "exception" and not signature.given:
        same = _told(signature, output)
        return ("fails" if same else "unresolved"), f"exit code {code}"
    if signature.given and signature.text.casefold() not in output.casefold():
        return "unresolved", f"exit code {code}"
    return "fails", f"exit code {code}"


def _shows(signature: Signature, tests: bool) -> bool:
    return tests or signature.kind in RAISED


def _told(signature: Signature, output: str) -> bool:
    """Whether a line of the output is this exception."""
    for line in output.splitlines():
        words = line.partition(f"{signature.exception}")
        if words[1] and alike(words[2].removeprefix(":").strip()) == (signature.message or ""):
            return True
    return False
