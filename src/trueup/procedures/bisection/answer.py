"""What a bisect knows at any time, and how it is told."""

from __future__ import annotations

import msgspec

from trueup.procedures.bisection.case import Case, NoCase, named_by
from trueup.procedures.bisection.search import Search
from trueup.procedures.bisection.stacks import stacks
from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Bisection, Narrowed, Verdict


class Answer:
    """Filled as the walk goes; `told` may be asked for at any time."""

    def __init__(self, trials: Trials) -> None:
        self.trials = trials
        self.verdict: Verdict = "not settled"
        self.why = ""
        self.case: Case | None = None
        self.search: Search | None = None
        self.none: NoCase | None = None
        """Why there is nothing to search."""
        self.order: tuple[bool | None, str | None] = (None, None)
        self.inside: list[Narrowed] = []

    def stop(self, verdict: Verdict, why: str) -> None:
        """The walk ended early; a set that was found stays found."""
        if self.verdict != "found":
            self.verdict, self.why = verdict, why
        elif self.search is not None:
            self.why = f"{self.search.words}; {why}"

    def told(self) -> Bisection:
        """All that is known now."""
        case, search = self.case, self.search
        if case is None or search is None:
            return self._without_search()
        minimal = search.minimal if self.verdict in ("found", "not settled", "interrupted") else frozenset[str]()
        signature = case.oracle.signature
        return Bisection(
            verdict=self.verdict,
            why=self.why,
            minimal=search.named(minimal),
            one_minimal=self.verdict == "found" and search.hunt.is_proved,
            order_matters=self.order[0],
            order=self.order[1],
            signature=signature,
            layers=case.layers,
            control=search.control or "not run",
            rate=search.hunt.rate if minimal else None,
            belief=search.hunt.belief if minimal else None,
            inside=tuple(self.inside),
            probes=self.trials.made(),
            finding=case.finding,
            stacks=stacks(case.job) if signature.kind == "hang" else (),
            command=case.job.command,
            notes=tuple(f"{layer} stays on: {why}" for layer, why in search.stays.items()),
            record=case.job,
        )

    def _without_search(self) -> Bisection:
        """The verdict, and what the job as it is showed where it is known."""
        found = Bisection(verdict=self.verdict, why=self.why, probes=self.trials.made())
        none = self.none
        if none is None or none.job is None:
            return found
        found = msgspec.structs.replace(found, command=none.job.command, record=none.job)
        if none.signature is None:
            return found
        return msgspec.structs.replace(
            found,
            signature=none.signature,
            control=none.control or "not run",
            finding=named_by(none.signature, none.job),
            stacks=stacks(none.job) if none.signature.kind == "hang" else (),
        )
