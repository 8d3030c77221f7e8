"""`fix`: answer the findings of a run with remedies, and keep those that prove themselves.

A remedy is kept when its finding is gone in the next run, nothing new has gone wrong, and the job computes what it
computed before. What two remedies do together is what is proved: the last run has exactly those that are kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from trueup.procedures.sameness import Sameness
from trueup.procedures.search import Run, Search, variant_of
from trueup.procedures.selection import Goal, select
from trueup.procedures.speed import speed
from trueup.remedies.registry import application
from trueup.schema.finding import Finding
from trueup.schema.fixing import Applied, Fixing, Proof, Speed, Step
from trueup.schema.record import Record
from trueup.schema.variant import Variant

_OUTPUT = re.compile(r"(?:^|[\\/])std(?:out|err)\.txt:\d+$")
"""Where a run printed something; that is not where its program is to be changed."""


def fix(run: Run, limits: Sequence[str] = (), goal: Goal = "correct", pairs: int = 1) -> Fixing:
    """Repair the job behind `run`, a function that runs a variant of it and returns the judged record.

    `pairs` of runs, as it was and repaired, are what the speed is measured on; the search has made the first.
    `limits` says, when all is done, what the runs could not keep apart from the user's files.
    """
    search = Search(run)
    search.settle()
    sameness = Sameness(search)
    sameness.proved()
    select(search, sameness, goal)
    numerics = sameness.proved()
    before = search.before
    if not search.kept:
        return Fixing(
            before=before,
            dropped=tuple(search.dropped),
            recipe=_recipe(search, before),
            probes=search.probes,
            notes=(*_why_unobserved(before), *limits),
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
            numerics=numerics,
            speed=_speed(search, sameness, pairs),
            peak_before_bytes=before.actual.memory.peak_bytes,
            peak_after_bytes=after.actual.memory.peak_bytes,
        ),
        recipe=_recipe(search, after),
        variant=_locked(variant_of(search.kept), after),
        probes=search.probes,
        notes=tuple(limits),
    )


def _why_unobserved(record: Record) -> tuple[str, ...]:
    """What the run says of a job of which no rank has reported."""
    return () if record.ranks else tuple(note.what for note in record.notes)


def _speed(search: Search, sameness: Sameness, pairs: int) -> Speed:
    """Over pairs in the order was, is, is, was, so that what drifts on the machine meets both alike.

    The few steps before a failure are cold ones, which say nothing of the job's pace.
    """
    befores, afters = [search.before], [search.record(search.kept)]
    if search.before.exit.code:
        return speed((), afters)
    if speed(befores, afters).ratio is not None:
        spare = [sameness.control] if sameness.control is not None else []
        for _ in range(pairs - 1):
            afters.append(search.again(variant_of(search.kept)))
            befores.append(spare.pop() if spare else search.again(Variant()))
    return speed(befores, afters)


def _recipe(search: Search, last: Record) -> tuple[Step, ...]:
    """The permanent change for each finding, cured or left to a person, the root cause first."""
    kept = {choice.rule: choice.remedy for choice in search.kept}
    left = {each.rule for each in last.findings if each.severity != "note" and not each.follows and each.remedies}
    return tuple(
        _step(finding, kept.get(rule) or _by_hand(finding, search), rule in kept)
        for rule, finding in search.seen.items()
        if rule in kept or rule in left
    )


def _by_hand(finding: Finding, search: Search) -> str:
    """The first remedy that has not failed here."""
    failed = {each.remedy for each in search.dropped if each.rule == finding.rule}
    return next((each.id for each in finding.remedies if each.id not in failed), finding.remedies[0].id)


def _step(finding: Finding, remedy: str, automatic: bool) -> Step:
    named = next(each for each in finding.remedies if each.id == remedy)
    seen = (evidence.at for evidence in finding.evidence if evidence.at and not _OUTPUT.search(evidence.at))
    places = dict.fromkeys(seen)
    return Step(rule=finding.rule, remedy=remedy, how=named.how, at=tuple(places)[:3], automatic=automatic)


def _locked(variant: Variant, record: Record) -> Variant:
    packages = record.environment.get("packages") or {}
    names = ("torch", "transformers", "accelerate", "peft", "lightning", "deepspeed", "flash_attn")
    return msgspec.structs.replace(variant, fingerprint={name: packages[name] for name in names if packages.get(name)})
