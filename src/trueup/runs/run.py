"""One run of a command under observation, from its launch to its record."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from trueup.logs import read as read_log
from trueup.rules.judgement import judge as judge_record
from trueup.rules.log_judgement import judge_log
from trueup.runs.encoding import writable
from trueup.runs.events import EventReader
from trueup.runs.folder import RunFolder, start_of
from trueup.runs.injection import inject
from trueup.runs.merge import merge, without_secrets
from trueup.runs.outcome import Outcome
from trueup.runs.probe import Probe
from trueup.runs.process import resolved, run_process
from trueup.runs.redaction import redacted_command
from trueup.schema.finding import Finding
from trueup.schema.record import Exit, Note, Record
from trueup.schema.variant import Variant

TELLING = frozenset({"sample", "error", "end"})
"""Kinds of events after which the verdict on a run may have changed."""

TRUEUP = Path(".trueup")

Judge = Callable[[Record], tuple[Finding, ...]]


def run_command(
    command: Sequence[str],
    *,
    out: Path,
    variant: Variant = Variant(),  # noqa: B008 - a frozen value
    steps: int | None = None,
    timeout: float | None = None,
    on_update: Callable[[Record], None] | None = None,
    pass_output: bool = True,
    probe: Probe | None = None,
    judge: Judge = judge_record,
    questions: Mapping[str, Mapping[str, int]] | None = None,
) -> Record:
    """Run `command` with `variant` and return its record, which is also written to `out/record.json`.

    A `probe` gives it a copy of the working folder and an environment of its own. `questions` are those of `--probe`.
    `on_update` gets a judged record of what is known whenever a sample, an error or an end of a process was told, at
    most once a second. Whatever fails on our side, the command runs to its end and `record.exit.code` is its exit code;
    the record's notes say what failed. Raises CommandError when the command cannot be started.
    """
    resolved(command, variant.environment.get("PATH", os.environ.get("PATH")))
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    folder = RunFolder(out)
    folder.create(start_of(command, variant, started))
    if folder.problem:
        _warn(folder.problem)
    reader = EventReader(folder.events)
    problems = [folder.problem] if folder.problem else []

    def on_tick() -> None:
        telling = any(event["kind"] in TELLING for event in reader.read())
        if telling and on_update is not None:
            on_update(judged(merge(reader.events, command=command, variant=variant, started=started), judge))

    try:
        base = probe.variables(os.environ) if probe else os.environ
        start = probe.folder if probe else None
        with inject(
            base, events=folder.events, variant=variant, steps=steps, questions=questions, start=start
        ) as injection:
            outcome = run_process(
                probe.command(command) if probe else command,
                injection.environment,
                run_id=injection.run_id,
                bootstrap=injection.bootstrap,
                folder=folder.captures,
                events=folder.events,
                cwd=start,
                timeout=timeout,
                pass_output=pass_output,
                ends_all=probe is not None,
                on_tick=_forgiving(on_tick, problems),
            )
        record = _final(command, variant, started, reader, folder, outcome, judge)
        events_problem = folder.events_problem()
        problems += [events_problem] if events_problem else []
        record = writable(_with_notes(record, problems + _other_versions(record, variant)))
        try:
            folder.write(record)
        except OSError as error:
            problem = f"record.json could not be written ({error.strerror})"
            _warn(problem)
            record = _with_notes(record, [problem])
    finally:
        folder.close()
    return record


def new_folder(kind: str = "runs") -> Path:
    """A new folder for what starts now, `.trueup/<kind>/<time>`, below the working folder.

    It is made here, so that no two get the same; where it cannot be made, whoever writes into it finds out.
    """
    name = datetime.now().strftime("%Y-%m-%d-%H%M%S")
    for number in itertools.count(1):
        folder = TRUEUP / kind / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError:
            pass
        return folder
    raise AssertionError("there is always another number")


def record_from_folder(path: Path, judge: Judge = judge_record) -> Record:
    """The record of a run by its folder: the finished one, else what the events tell so far. Judged anew."""
    folder = RunFolder(path)
    record = folder.record()
    if record is None:
        reader = EventReader(folder.events)
        reader.read()
        start = folder.start()
        record = merge(reader.events, command=start.command, variant=start.variant, started=start.started)
    return judged(record, judge)


def with_printed_cause(record: Record, captured: Sequence[Path]) -> Record:
    """The findings of a failed run together with what its printed output says, the cause of the failure first."""
    if not record.exit.code or record.exit.reason == "timeout":
        return record
    try:
        printed = [finding for path in captured for finding in judge_log(read_log(path))]
    except Exception as error:
        return _with_notes(record, [f"the printed output could not be judged: {type(error).__name__}: {error}"])
    seen = {finding.rule for finding in record.findings}
    new = list({finding.rule: finding for finding in reversed(printed) if finding.rule not in seen}.values())[::-1]
    fatal = [finding for finding in new if finding.severity == "error" and finding.confidence != "possible"]
    if any(finding.severity == "error" for finding in record.findings):
        fatal = []
    rest = [finding for finding in new if finding not in fatal]
    return msgspec.structs.replace(record, findings=(*fatal, *record.findings, *rest))


def judged(record: Record, judge: Judge = judge_record) -> Record:
    """The record with its findings; a judge that fails leaves a note."""
    try:
        return msgspec.structs.replace(record, findings=judge(record))
    except Exception as error:
        return _with_notes(record, [f"the rules could not judge this run: {type(error).__name__}: {error}"])


def _final(
    command: Sequence[str],
    variant: Variant,
    started: str,
    reader: EventReader,
    folder: RunFolder,
    outcome: Outcome,
    judge: Judge,
) -> Record:
    try:
        reader.read()
        reader.read_crashes()
        record = merge(
            reader.events,
            command=command,
            variant=variant,
            started=started,
            outcome=outcome,
            fatal_line=folder.fatal_line() if outcome.code else None,
        )
        return without_secrets(with_printed_cause(judged(record, judge), folder.captured))
    except Exception as error:  # the command's own result must survive a defect of ours
        problem = f"the record could not be made: {type(error).__name__}: {error}"
        _warn(problem)
        return Record(
            command=redacted_command(command),
            started=started,
            duration_s=outcome.duration_s,
            exit=Exit(code=outcome.code, signal=outcome.signal, reason=outcome.reason),
            notes=(Note(what=problem),),
        )


def _forgiving(on_tick: Callable[[], None], problems: list[str]) -> Callable[[], None]:
    """`on_tick` that never raises: its first failure is noted and ends the live view, not the run."""
    broken = False

    def tick() -> None:
        nonlocal broken
        if broken:
            return
        try:
            on_tick()
        except Exception as error:
            broken = True
            problems.append(f"the live view failed: {type(error).__name__}: {error}")

    return tick


def _other_versions(record: Record, variant: Variant) -> list[str]:
    """Packages of another version than the variant was proved with."""
    packages = record.environment.get("packages") or {}
    return [
        f"the variant was proved with {name} {version}, this run has {packages[name]}"
        for name, version in variant.fingerprint.items()
        if packages.get(name, version) != version
    ]


def _with_notes(record: Record, texts: Sequence[str]) -> Record:
    return msgspec.structs.replace(record, notes=(*record.notes, *(Note(what=text) for text in texts)))


def _warn(text: str) -> None:
    try:
        sys.stderr.write(f"trueup: {text}\n")
        sys.stderr.flush()
    except OSError:
        pass
