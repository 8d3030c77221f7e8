"""Records of runs as a procedure gets them: a job whose findings and losses depend on the remedies."""

from __future__ import annotations

from collections.abc import Sequence

from trueup.schema.finding import Finding, Remedy
from trueup.schema.record import Actual, Exit, Memory, Record, Steps

LOSSES = (5.0, 4.5, 4.2, 4.0, 3.9, 3.85, 3.8, 3.7)


def finding(rule: str, *remedies: str, severity: str = "warning") -> Finding:
    return Finding(
        rule=rule,
        layers=("compile",),
        severity=severity,  # type: ignore[arg-type]
        confidence="established",
        message="Something is not as asked.",
        cause="It is so.",
        remedies=tuple(
            Remedy(id=remedy, kind="in-process", automatic=True, how=f"set {remedy}") for remedy in remedies
        ),
    )


def record(
    *findings: Finding,
    losses: Sequence[float | None] = LOSSES,
    seconds: float = 0.1,
    norms: Sequence[float | None] = (),
    code: int = 0,
    peak: int | None = None,
) -> Record:
    return Record(
        exit=Exit(code=code, reason="ValueError" if code else None),
        steps=Steps(
            count=len(losses),
            losses=tuple(losses),
            grad_norms=tuple(norms),
            seconds=tuple(seconds for _ in losses),
        ),
        environment={"packages": {"torch": "2.13.0", "numpy": "2.0"}},
        actual=Actual(memory=Memory(peak_bytes=peak)),
        findings=findings,
    )
