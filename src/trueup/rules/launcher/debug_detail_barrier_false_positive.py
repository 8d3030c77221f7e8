"""The debug mode of collectives reports a mismatch of barriers falsely."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import said, torch_version, variable
from trueup.rules.log_facts import mention
from trueup.schema.environment import Environment
from trueup.schema.finding import Remedy
from trueup.schema.log import Log

BOTH_BARRIERS = (
    r"mismatch between collectives[^\n]*?is running collective: CollectiveFingerPrint\([^\n]*?OpType=BARRIER"
    r"[^\n]*?but Rank \d+ is running collective: CollectiveFingerPrint\([^\n]*?OpType=(?P<other>\w+)"
)


def detect_log(log: Log) -> Sighting | None:
    seen = mention(log, BOTH_BARRIERS)
    if seen is None or seen.found["other"] != "BARRIER":
        return None
    return Sighting(
        message="Two ranks stand in the same collective, a barrier; only the debug wrapper counts them differently.",
        evidence=(seen.evidence(log),),
        confidence="established" if "torch" in log.versions else "likely",
        failure=seen.failure,
        specificity=1300,
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    level, torch = variable(environment, "TORCH_DISTRIBUTED_DEBUG"), torch_version(environment)
    if level is None or level.value.upper() != "DETAIL" or torch is None or torch.release[:2] != (2, 6):
        return None
    return Sighting(
        message=f"TORCH_DISTRIBUTED_DEBUG=DETAIL of torch {torch} can report a false barrier mismatch after sends.",
        evidence=(said(level),),
        confidence="possible",
        severity="note",
    )


RULE = Rule(
    id="launcher/debug-detail-barrier-false-positive",
    title="DETAIL debug mode reports a barrier mismatch falsely",
    layers=("launcher",),
    severity="error",
    silent="",
    cause=(
        "The debug wrapper compares sequence numbers, which sends and receives raise on the two ranks that take part. "
        "The next barrier then has another number on each rank; the program is right."
    ),
    remedies=(
        Remedy(
            id="debug-level-info",
            kind="env-var",
            automatic=True,
            how="TORCH_DISTRIBUTED_DEBUG=INFO for this run; verify with the flight recorder "
            "(TORCH_FR_BUFFER_SIZE=2000)",
        ),
    ),
    caution="Only where both sides are BARRIER and the job runs without DETAIL.",
    sources=("https://github.com/pytorch/pytorch/issues/148976",),
    versions={"torch": ">=2.6"},
    log=(
        LogText(
            text="OpType=BARRIER), but Rank <rank> is running collective: "
            "CollectiveFingerPrint(SequenceNumber=<number>OpType=BARRIER",
            versions="torch 2.6 to 2.13",
        ),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
