"""`fix`: answer the findings of a run with remedies, and keep those that prove themselves.

A remedy is kept when its finding is gone in the next run, nothing new has gone wrong, and the job computes what it
computed before. What two remedies do together is what is proved: the last run has exactly those that are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from trueup.procedures import numerics
from trueup.procedures.speed import speed
from trueup.remedies.choice import Choice, next_choices
from trueup.remedies.registry import application
from trueup.schema.finding import SEVERITIES, Finding
from trueup.schema.fixing import Applied, Dropped, Fixing, Numerics, Proof, Step
from trueup.schema.record import Record, unchanged
from trueup.schema.variant import Variant

Run = Callable[[Variant], Record]

ROUNDS = 5
"""A cured finding may uncover another, and an alternative takes a run: so many times new remedies are tried."""


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
        self.probes += 1
        record = self._run(variant)
        for finding in record.findings:
            self.seen.setdefault(finding.rule, finding)
        return record

    def try_next(self) -> bool:
        """Try what answers the findings that stand; False when there is nothing left to try."""
        new = next_choices(self.record(self.kept).findings, self.tried, self.kept)
        if not new:
            return False
        self.tried += new
        record = self.record((*self.kept, *new))
        if _is_worse(self.record(self.kept), record) and len(new) > 1:
            for choice in new:  # one of them did it: each alone
                self._keep_if_good((choice,), self.record((*self.kept, choice)))
        else:
            self._keep_if_good(new, record)
        return True

    def _keep_if_good(self, new: Sequence[Choice], record: Record) -> None:
        worse = _is_worse(self.record(self.kept), record)
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
            self.drop(choice, f"with it the job {worse}" if worse else "the finding stands with it")

    def left(self, choices: Sequence[Choice], record: Record) -> set[str]:
        """The rules of `choices` that stand in `record` as severely as they did before any remedy."""
        severity = {finding.rule: SEVERITIES.index(finding.severity) for finding in record.findings}
        return {
            choice.rule
            for choice in choices
            if severity.get(choice.rule, len(SEVERITIES)) <= SEVERITIES.index(self.seen[choice.rule].severity)
        }

    def drop(self, choice: Choice, why: str) -> None:
        """Keep the remedy of this choice for no finding."""
        self.kept = tuple(each for each in self.kept if each.remedy != choice.remedy)
        self.dropped.append(Dropped(remedy=choice.remedy, rule=choice.rule, why=why))


def fix(run: Run, limits: Sequence[str] = ()) -> Fixing:
    """Repair the job behind `run`, a function that runs a variant of it and returns the judged record.

    `limits` says, when all is done, what the runs could not keep apart from the user's files.
    """
    search = Search(run)
    for _ in range(ROUNDS):
        if not search.try_next():
            break
    numbers = _proved_numerics(search)
    before = search.before
    if not search.kept:
        return Fixing(
            before=before,
            dropped=tuple(search.dropped),
            recipe=_recipe(search, before),
            probes=search.probes,
            notes=tuple(limits),
        )
    after = search.record(search.kept)
    return Fixing(
        before=before,
        after=after,
        applied=tuple(
            Applied(remedy=choice.remedy, rule=choice.rule, variables=application(choice.remedy).variables)
            for choice in search.kept
        ),
        dropped=tuple(search.dropped),
        proof=Proof(
            findings_gone=not after.exit.code and not search.left(search.kept, after),
            numerics=numbers,
            speed=speed(before, after),
            peak_before_bytes=before.actual.memory.peak_bytes,
            peak_after_bytes=after.actual.memory.peak_bytes,
        ),
        recipe=_recipe(search, after),
        variant=_locked(variant_of(search.kept), after),
        probes=search.probes,
        notes=tuple(limits),
    )


def is_unchanged(record: Record, remedy: str) -> bool:
    """Whether no process of a run found anything to change for this remedy."""
    return any(note.what.startswith(unchanged(f"remedy {remedy}")) for note in record.notes)


def variant_of(choices: Iterable[Choice]) -> Variant:
    remedies = tuple(sorted({choice.remedy for choice in choices}))
    return Variant(name=" + ".join(remedies) or "as is", remedies=remedies)


def _proved_numerics(search: Search) -> Numerics:
    """Drop remedies until the job computes what it computed; the verdict on those that are kept."""
    control: Record | None = None
    while search.kept:
        if control is None and _needs_control(search):
            control = search.again(Variant())
        verdict = _numerics(search, search.kept, control)
        if verdict.verdict != "different":
            return verdict
        search.drop(_culprit(search, control), f"the job computes something else with it: {verdict.why}")
    return Numerics(verdict="not compared", why="nothing was applied")


def _needs_control(search: Search) -> bool:
    """Whether the noise of the job has to be known: results may not change, and are not the same."""
    if any(_corrects(choice) for choice in search.kept):
        return False
    after = search.record(search.kept)
    return numerics.difference(search.before, after)[1] is not None and not numerics.is_same(search.before, after)


def _culprit(search: Search, control: Record | None) -> Choice:
    """The remedy without which the others leave the results as they are, else the last."""
    correcting = {choice.remedy for choice in search.kept if _corrects(choice)}
    harmless = [choice for choice in search.kept if choice.remedy not in correcting]
    for choice in harmless[:-1]:
        rest = [each for each in search.kept if each.remedy != choice.remedy]
        if _numerics(search, rest, control).verdict != "different":
            return choice
    return harmless[-1]


def _numerics(search: Search, choices: Sequence[Choice], control: Record | None) -> Numerics:
    """The verdict on `choices`; those that correct results are what the others are compared with."""
    corrected = [choice for choice in choices if _corrects(choice)]
    if not corrected:
        return numerics.compared(search.before, search.record(choices), control)
    names = ", ".join(f"{choice.remedy} ({choice.rule})" for choice in corrected)
    why = f"the results were wrong and change by design: {names}"
    others = {choice.remedy for choice in choices} - {choice.remedy for choice in corrected}
    if others:
        verdict = numerics.compared(search.record(corrected), search.record(choices), control)
        if verdict.verdict == "different":
            return verdict
        why = f"{why}; against these alone, {', '.join(sorted(others))}: {verdict.why}"
    return Numerics(verdict="corrected", why=why)


def _corrects(choice: Choice) -> bool:
    return choice.rule in application(choice.remedy).corrects


def _is_worse(before: Record, after: Record) -> str:
    """What goes wrong in `after` that did not before; empty when nothing does."""
    if after.exit.code and (not before.exit.code or after.steps.count < before.steps.count or not after.ranks):
        return f"fails ({after.exit.reason or f'exit code {after.exit.code}'})"
    errors = {finding.rule for finding in after.findings if finding.severity == "error"}
    new = errors - {finding.rule for finding in before.findings}
    if new and not before.exit.code:
        return f"has a new fault ({', '.join(sorted(new))})"
    return ""


def _recipe(search: Search, last: Record) -> tuple[Step, ...]:
    """The permanent change for each finding: those that were cured first, then what is left to a person."""
    cured = [_step(search.seen[choice.rule], choice.remedy) for choice in search.kept]
    left = [finding for finding in last.findings if finding.severity != "note" and not finding.follows]
    return (*cured, *(_step(finding, None) for finding in left if finding.remedies))


def _step(finding: Finding, remedy: str | None) -> Step:
    named = next((each for each in finding.remedies if remedy in (None, each.id)), finding.remedies[0])
    places = dict.fromkeys(evidence.at for evidence in finding.evidence if evidence.at)
    return Step(rule=finding.rule, remedy=named.id, how=named.how, at=tuple(places)[:3], automatic=remedy is not None)


def _locked(variant: Variant, record: Record) -> Variant:
    packages = record.environment.get("packages") or {}
    names = ("torch", "transformers", "accelerate", "peft", "lightning", "deepspeed", "flash_attn")
    return msgspec.structs.replace(variant, fingerprint={name: packages[name] for name in names if packages.get(name)})
