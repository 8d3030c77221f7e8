"""The search of `fix`: the runs made so far, and the remedies that are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from trueup.procedures.speed import speed
from trueup.remedies.choice import Choice, next_choices
from trueup.schema.finding import SEVERITIES, Finding
from trueup.schema.fixing import Dropped
from trueup.schema.record import Record, unchanged
from trueup.schema.variant import Variant

Run = Callable[[Variant], Record]

ROUNDS = 5
"""A cured finding may uncover another, and an alternative takes a run: so many times new remedies are tried."""
SLOWER = 1.25
"""Times as long as steps must take without a remedy to keep it, though its finding is gone without it."""
MINIMISED = 4
"""Of more remedies than these, none is left out to see whether it is needed: each takes a run."""


class Search:
    """The runs made so far, and what is kept of the remedies."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.records: dict[tuple[str, ...], Record] = {}
        self.probes = 0
        self.kept: tuple[Choice, ...] = ()
        self.tried: list[Choice] = []
        self.dropped: list[Dropped] = []
        self.seen: dict[str, Finding] = {}
        """Rule → its finding, of all runs."""
        self.before = self.record(())

    def record(self, choices: Iterable[Choice]) -> Record:
        """The record of the job with these remedies; no variant is run twice."""
        variant = variant_of(choices)
        if variant.remedies not in self.records:
            self.records[variant.remedies] = self.again(variant)
        return self.records[variant.remedies]

    def again(self, variant: Variant) -> Record:
        """A run of `variant`, whether or not it was run before."""
        self.probes += 1
        record = self._run(variant)
        for finding in record.findings:
            self.seen.setdefault(finding.rule, finding)
        return record

    def settle(self) -> None:
        """Answer what is found until nothing is left to try, then leave out what was not needed."""
        for _ in range(ROUNDS):
            if not self._try_next():
                break
        if 1 < len(self.kept) <= MINIMISED:
            self._minimise()

    def _try_next(self) -> bool:
        """Try what answers the findings that stand; False when there is nothing left to try."""
        new = next_choices(self.record(self.kept).findings, self.tried, self.kept)
        if not new:
            return False
        self.tried += new
        record = self.record((*self.kept, *new))
        if is_worse(self.record(self.kept), record) and len(new) > 1:
            for choice in new:  # one of them did it: each alone
                self._keep_if_good((choice,), self.record((*self.kept, choice)))
        else:
            self._keep_if_good(new, record)
        return True

    def _keep_if_good(self, new: Sequence[Choice], record: Record) -> None:
        worse = is_worse(self.record(self.kept), record)
        left = self.left(new, record)
        if not worse:
            idle = {choice.remedy for choice in new if is_unchanged(record, choice.remedy)}
            self.kept = (
                *self.kept,
                *(choice for choice in new if choice.rule not in left and choice.remedy not in idle),
            )
        applied = {choice.remedy for choice in self.kept}
        for choice in new:
            if choice.remedy in applied or (choice.rule not in left and not worse):
                continue
            self.drop(choice, f"with it the job {worse}" if worse else "the finding stands with it", bool(worse))

    def _minimise(self) -> None:
        """Drop each remedy without which all findings are gone as well and steps as fast, the last one first."""
        for choice in reversed(self.kept):
            rest = self.without(choice)
            if not rest:
                continue
            record = self.record(rest)
            # Beside its own finding a remedy may have cured that of another, which then had nothing left to change.
            uncured = self.left(self.tried, record) - self.left(self.tried, self.record(self.kept))
            unneeded = not is_worse(self.record(self.kept), record) and not uncured
            if unneeded and not is_slower(self.record(self.kept), record):
                self.drop(choice, "the finding is gone without it, too")

    def without(self, choice: Choice) -> tuple[Choice, ...]:
        """What is kept, but for the remedy of this choice."""
        return tuple(each for each in self.kept if each.remedy != choice.remedy)

    def left(self, choices: Sequence[Choice], record: Record) -> set[str]:
        """The rules of `choices` that stand in `record` as severely as they did before any remedy."""
        severity = {finding.rule: SEVERITIES.index(finding.severity) for finding in record.findings}
        return {
            choice.rule
            for choice in choices
            if severity.get(choice.rule, len(SEVERITIES)) <= SEVERITIES.index(self.seen[choice.rule].severity)
        }

    def drop(self, choice: Choice, why: str, harmful: bool = False) -> None:
        """Keep the remedy of this choice for no finding."""
        self.kept = self.without(choice)
        self.dropped.append(Dropped(remedy=choice.remedy, rule=choice.rule, why=why, harmful=harmful))


def variant_of(choices: Iterable[Choice]) -> Variant:
    remedies = tuple(sorted({choice.remedy for choice in choices}))
    return Variant(name=" + ".join(remedies) or "as is", remedies=remedies)


def is_unchanged(record: Record, remedy: str) -> bool:
    """Whether no process of a run found anything to change for this remedy."""
    return any(note.what.startswith(unchanged(f"remedy {remedy}")) for note in record.notes)


def is_slower(one: Record, other: Record) -> bool:
    """Whether late steps of `other` take longer, beyond the noise of the two runs: a cause may hide behind another."""
    measured = speed((one,), (other,))
    return measured.high is not None and measured.high < 1 / SLOWER


def is_worse(before: Record, after: Record) -> str:
    """What goes wrong in `after` that did not before; empty when nothing does."""
    if after.exit.code and (not before.exit.code or after.steps.count < before.steps.count or not after.ranks):
        return f"fails ({after.exit.reason or f'exit code {after.exit.code}'})"
    errors = {finding.rule for finding in after.findings if finding.severity == "error"}
    new = errors - {finding.rule for finding in before.findings}
    if new and not before.exit.code:
        return f"has a new fault ({', '.join(sorted(new))})"
    return ""
