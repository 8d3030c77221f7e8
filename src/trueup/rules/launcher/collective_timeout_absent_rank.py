"""A collective timed out because a rank never joined it."""

from __future__ import annotations

from trueup.rules.collective_logs import desync, in_words, waiting
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.log_facts import mention
from trueup.rules.rank_ends import elsewhere, finished, place
from trueup.rules.rank_ends import waiting as waiting_ranks
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

BARRIER = r"store[ -]based barrier[^\n]*?world_size=(?P<world>\d+), (?:worker_count|num_workers_joined)=(?P<joined>\d+)"


def detect(record: Record) -> Sighting | None:
    """The run was ended while some ranks stood in a collective and another one somewhere else."""
    left, away = waiting_ranks(record), elsewhere(record)
    if not left or not away or finished(record):
        return None
    where = place(away[0])
    return Sighting(
        message=f"{len(left)} of {len(record.ranks)} ranks waited in a collective when the run was ended; rank "
        f"{away[0].rank} was elsewhere{f', at {where}' if where else ''}.",
        evidence=(
            *(Evidence(what="stood outside of any collective at", at=place(rank), ranks=(rank.rank,)) for rank in away),
            *(Evidence(what="waited at", at=place(rank), ranks=(rank.rank,)) for rank in left[:3]),
        ),
    )


def detect_log(log: Log) -> Sighting | None:
    return reported(log) or absent(log) or never_came(log)


NEVER_JOINED = r"ranks \[(?P<ranks>[\d, ]+)\] are the lagging ranks that caused this timeout"


def reported(log: Log) -> Sighting | None:
    """The desync report of torch itself names the ranks that did not join."""
    report, never = desync(log), mention(log, NEVER_JOINED)
    if report is not None and report.behind and not report.different:
        who, what, seen = report.behind.ranks, f"did not join collective {report.behind.number}", report.seen
    elif never is not None:
        who, what, seen = tuple(map(int, never.found["ranks"].split(","))), "never joined any collective", never
    else:
        return None
    told = in_words(who)
    return Sighting(
        message=f"{told[:1].upper()}{told[1:]} {what}.",
        evidence=(seen.evidence(log), Evidence(what="ranks that did not join", ranks=who)),
        failure=seen.failure,
        specificity=1200,
    )


def absent(log: Log) -> Sighting | None:
    """Which ranks wait, and which of the world do not say so."""
    ranks = waiting(log)
    if not ranks:
        return None
    first = ranks[0]
    known = sorted({each.rank for each in ranks if each.rank is not None})
    missing = sorted(set(range(log.world_size or 0)) - set(known)) if known else []
    what = f"{first.operation or 'a collective'}{f' number {first.sequence}' if first.sequence is not None else ''}"
    who = f"rank{'s' if len(known) > 1 else ''} {', '.join(map(str, known[:8]))}" if known else "The ranks in this log"
    tell = (
        f"; rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing[:8]))} did not report" if missing else ""
    )
    return Sighting(
        message=f"{who[:1].upper()}{who[1:]} waited for {what} until the timeout{tell or _alone(known)}.",
        evidence=(
            *(each.seen.evidence(log) for each in ranks[:5]),
            *((Evidence(what="ranks without a report", ranks=tuple(missing)),) if missing else ()),
        ),
        failure=first.seen.failure,
    )


def _alone(known: list[int]) -> str:
    """One rank sees that nobody answered, not why."""
    return "; from this rank alone it cannot be told whether another was absent or at another collective" * (
        len(known) == 1
    )


def never_came(log: Log) -> Sighting | None:
    """Fewer ranks than the world reached the barrier of init_process_group."""
    seen = mention(log, BARRIER)
    if seen is None or int(seen.found["joined"]) >= int(seen.found["world"]):
        return None
    joined, world = seen.found["joined"], seen.found["world"]
    return Sighting(
        message=f"{joined} of {world} ranks reached the barrier of init_process_group.",
        evidence=(seen.evidence(log), Evidence(what="ranks that joined", value=int(joined))),
        failure=seen.failure,
    )


RULE = Rule(
    id="launcher/collective-timeout-absent-rank",
    title="Watchdog timeout because one rank never joined",
    layers=("launcher", "sharding", "trainer"),
    severity="error",
    silent="",
    cause=(
        "The ranks that report only wait: another one crashed, hangs in data loading, compiles, saves a checkpoint, "
        "or took a path without this collective."
    ),
    remedies=(
        Remedy(
            id="find-the-absent-rank",
            kind="env-var",
            automatic=False,
            how="collect the output of all ranks (torchrun --log-dir logs --tee 3) and run trueup explain logs/; the "
            "rank that is absent or behind tells the cause",
        ),
        Remedy(
            id="record-collectives",
            kind="env-var",
            automatic=False,
            how="TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 (TORCH_NCCL_TRACE_BUFFER_SIZE before torch "
            "2.9), then torchfrtrace; py-spy dump --pid PID while it hangs",
        ),
        Remedy(
            id="longer-collective-timeout",
            kind="code",
            automatic=False,
            how="init_process_group(timeout=timedelta(minutes=60)), for slow phases that are known only: first "
            "compile, saving",
        ),
    ),
    caution=(
        "Different sequence numbers on the reporting ranks are a desync. An exception that another rank printed "
        "earlier is the real cause."
    ),
    sources=("https://github.com/hiyouga/LlamaFactory/issues/7396",),
    residual=True,
    log=(
        LogText(text="Watchdog caught collective operation timeout", versions="torch 1.10 or newer"),
        LogText(
            text="Exception (either an error or timeout) detected by watchdog at work: <number>, last enqueued",
            versions="torch 2.4 or newer",
        ),
        LogText(text="Timeout at NCCL work: <number>, last enqueued NCCL work:", versions="torch 2.2 to 2.3"),
        LogText(text="Received a dump signal due to a collective timeout from", versions="torch 2.4 or newer"),
        LogText(
            text="watchdog got stuck for <number> seconds without making progress in monitoring enqueued collectives",
            versions="torch 2.3 or newer",
        ),
        LogText(
            text="via c10d key-value store by key <key>, but store->get(<key>) got error",
            versions="torch 2.0 or newer: rank 0 did not write its id",
        ),
        LogText(text="failed to pass monitoredBarrier", versions="torch 1.8 or newer"),
        LogText(text="Application timeout caused pair closure", versions="gloo"),
        LogText(text="watchdog thread terminated with exception", strength="supporting", versions="torch any"),
        LogText(text="Timed out waiting <number>ms for recv operation to complete", versions="gloo"),
        LogText(text="Timed out waiting <number>ms for send operation to complete", versions="gloo"),
        LogText(text="Timed out initializing process group in store based barrier", versions="torch 1.8 to 2.5"),
        LogText(
            text="Some NCCL operations have failed or timed out", strength="supporting", versions="torch 1.10 or newer"
        ),
        LogText(
            text="ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
            "prematurely",
            strength="supporting",
            versions="NCCL 2.13 or newer",
        ),
        LogText(
            text="Connection closed by peer", strength="supporting", versions="gloo", inside=("torch/distributed/",)
        ),
        LogText(
            text="Heartbeat monitor timed out! Process will be terminated after dumping debug info",
            strength="supporting",
            versions="torch 2.2 to 2.4, in front of the line about its watchdog",
        ),
        LogText(text="wait timeout after <number>ms, keys:", strength="supporting", versions="torch 2.4 or newer"),
    ),
    from_record=detect,
    from_log=detect_log,
)
