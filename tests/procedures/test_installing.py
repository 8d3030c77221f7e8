"""What `trueup fix --yes` installs, and when."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec
import pytest
from records import finding, record

from trueup.procedures.installing import installed_first, wanted
from trueup.runs.installing import InstallError, pip_install
from trueup.schema.finding import Finding, Remedy
from trueup.schema.record import Record
from trueup.schema.variant import Variant

INSTALL = Remedy(id="upgrade-peft", kind="install", automatic=False, how="pip install -U 'peft>=0.15'")
OLD = msgspec.structs.replace(finding("adapter/lora-forward-graph-break"), remedies=(INSTALL,))


class Job:
    """A job whose finding goes when something is installed."""

    def __init__(self, *findings: Finding) -> None:
        self.findings = findings
        self.ran: list[str] = []
        self.installed: list[tuple[str, ...]] = []
        self.told: list[str] = []

    def run(self, variant: Variant) -> Record:
        self.ran.append(variant.name)
        made = record(*(() if self.installed else self.findings))
        return msgspec.structs.replace(made, environment={"executable": "/env/bin/python"})

    def install(self, executable: str, words: Sequence[str]) -> None:
        assert executable == "/env/bin/python"
        self.installed.append(tuple(words))


def test_what_nothing_else_cures_is_installed_before_the_job_is_repaired_and_told() -> None:
    job = Job(OLD)
    run, lines = installed_first(job.run, job.install, job.told.append)
    assert lines == ("pip install -U 'peft>=0.15'",)
    assert job.installed == [("-U", "peft>=0.15")]
    assert job.told == ["installing into the environment of /env/bin/python: pip install -U 'peft>=0.15'"]
    assert run(Variant()).findings == ()
    assert job.ran == ["as is", "as is"]


def test_without_a_need_nothing_is_installed_and_no_run_is_made_twice() -> None:
    job = Job(finding("compile/x", "disable-kv-cache"))
    run, lines = installed_first(job.run, job.install, job.told.append)
    assert (lines, job.installed, job.told) == ((), [], [])
    assert len(run(Variant()).findings) == 1
    assert job.ran == ["as is"]
    run(Variant(name="other", remedies=("disable-kv-cache",)))
    run(Variant())
    assert job.ran == ["as is", "other", "as is"]


@pytest.mark.parametrize(
    "other",
    [
        msgspec.structs.replace(OLD, severity="note"),
        msgspec.structs.replace(OLD, follows="compile/x"),
        msgspec.structs.replace(OLD, remedies=(*finding("x/y", "disable-kv-cache").remedies, INSTALL)),
        msgspec.structs.replace(OLD, remedies=(msgspec.structs.replace(INSTALL, how="a newer torch"),)),
    ],
)
def test_notes_consequences_and_what_a_remedy_cures_are_no_reason_to_install(other: Finding) -> None:
    assert wanted(record(other)) == ()


def test_pip_of_the_interpreter_is_run_and_prints_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    pip_install(sys.executable, ["pip"])
    told = capfd.readouterr()
    assert told.out == ""
    assert "Requirement already satisfied: pip" in told.err


def test_pip_that_fails_is_told() -> None:
    with pytest.raises(InstallError, match="no-such-option"):
        pip_install(sys.executable, ["--no-such-option"])
    with pytest.raises(InstallError, match="cannot be started"):
        pip_install("/nowhere/python", ["peft"])
