"""The algorithm of `fix` over runs that are known beforehand."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from records import LOSSES, finding, record

from trueup.procedures.fix import fix
from trueup.remedies import registry
from trueup.remedies.application import Application
from trueup.schema.finding import Evidence
from trueup.schema.record import Note, Record, unchanged
from trueup.schema.variant import Variant

KV = "compile/recompile-kv-cache-in-training"
INTEGERS = "compile/recompile-per-layer-attribute"
GROWING, DYNAMIC = "compile/recompile-growing-python-state", "dynamic-module-numbers"
KV_OFF, LIMIT, UNSPECIALIZED = "disable-kv-cache", "raise-recompile-limit", "unspecialize-module-integers"
SLOW = finding(INTEGERS, UNSPECIALIZED, LIMIT)
WRONG = [loss * (1.01 + 0.01 * step) for step, loss in enumerate(LOSSES)]

Job = Callable[[set[str]], Record]


def runs_of(job: Job) -> tuple[Callable[[Variant], Record], list[tuple[str, ...]]]:
    made: list[tuple[str, ...]] = []

    def run(variant: Variant) -> Record:
        made.append(variant.remedies)
        return job(set(variant.remedies))

    return run, made


def test_a_healthy_job_is_run_once_and_left_as_it_is() -> None:
    run, made = runs_of(lambda remedies: record(finding("memory/x", "by-hand", severity="note")))
    fixing = fix(run)
    assert made == [()]
    assert (fixing.applied, fixing.dropped, fixing.variant, fixing.recipe) == ((), (), None, ())


def test_a_finding_that_falls_to_a_note_is_cured() -> None:
    def job(remedies: set[str]) -> Record:
        return record(finding(KV, "disable-kv-cache", severity="note" if remedies else "warning"))

    fixing = fix(runs_of(job)[0])
    assert [each.remedy for each in fixing.applied] == ["disable-kv-cache"]
    assert fixing.proof is not None
    assert fixing.proof.findings_gone


def test_a_remedy_that_cures_is_applied_and_proved() -> None:
    def job(remedies: set[str]) -> Record:
        return record(seconds=0.05) if remedies else record(finding(KV, "disable-kv-cache"))

    fixing = fix(runs_of(job)[0])
    assert [(each.remedy, each.rule) for each in fixing.applied] == [("disable-kv-cache", KV)]
    assert fixing.proof is not None
    assert fixing.proof.findings_gone
    assert (fixing.proof.numerics.verdict, fixing.proof.numerics.worst) == ("equal", 0)
    assert fixing.proof.speed.ratio == pytest.approx(2)
    assert fixing.variant is not None
    assert fixing.variant.remedies == ("disable-kv-cache",)
    assert fixing.variant.fingerprint == {"torch": "2.13.0"}
    assert [(step.how, step.automatic) for step in fixing.recipe] == [("set disable-kv-cache", True)]
    assert fixing.probes == 2


def test_what_is_to_be_changed_is_where_the_program_is_not_what_it_printed() -> None:
    places = ("/tmp/fix/probe-1/stderr.txt:34", "train.py:9", "stdout.txt:2", "notes/stderr.txt.py:3")
    evidence = tuple(Evidence(what="seen", at=place) for place in places)

    def job(remedies: set[str]) -> Record:
        return record() if remedies else record(msgspec.structs.replace(finding(KV, KV_OFF), evidence=evidence))

    assert fix(runs_of(job)[0]).recipe[0].at == ("train.py:9", "notes/stderr.txt.py:3")


def test_a_remedy_with_which_the_finding_stands_gives_way_to_the_next() -> None:
    def job(remedies: set[str]) -> Record:
        cured = "raise-recompile-limit" in remedies
        return record() if cured else record(finding(INTEGERS, "unspecialize-module-integers", "raise-recompile-limit"))

    fixing = fix(runs_of(job)[0])
    assert [each.remedy for each in fixing.applied] == ["raise-recompile-limit"]
    assert [(each.remedy, each.why) for each in fixing.dropped] == [
        ("unspecialize-module-integers", "the finding stands with it")
    ]


def test_a_remedy_that_cures_one_of_two_findings_is_kept_for_that_one() -> None:
    def job(remedies: set[str]) -> Record:
        stands = finding("compile/recompile-grad-or-train-mode-toggle", "raise-recompile-limit", severity="note")
        return record(stands) if remedies else record(finding(INTEGERS, "raise-recompile-limit"), stands)

    fixing = fix(runs_of(job)[0])
    assert [(each.remedy, each.rule) for each in fixing.applied] == [("raise-recompile-limit", INTEGERS)]
    assert fixing.dropped == ()


def test_a_remedy_that_changes_the_results_is_dropped_after_a_control_run() -> None:
    def job(remedies: set[str]) -> Record:
        return record(losses=WRONG) if remedies else record(finding(KV, "disable-kv-cache"))

    run, made = runs_of(job)
    fixing = fix(run)
    assert made == [(), ("disable-kv-cache",), ()]
    assert fixing.applied == ()
    assert "computes something else" in fixing.dropped[0].why
    assert fixing.dropped[0].harmful
    assert fixing.recipe[0].automatic is False


def test_of_two_remedies_only_the_one_that_changes_the_results_is_dropped() -> None:
    def job(remedies: set[str]) -> Record:
        findings = [] if "disable-kv-cache" in remedies else [finding(KV, "disable-kv-cache")]
        if "raise-recompile-limit" not in remedies:
            findings.append(finding(INTEGERS, "raise-recompile-limit"))
        return record(*findings, losses=WRONG if "disable-kv-cache" in remedies else LOSSES)

    fixing = fix(runs_of(job)[0])
    assert [each.remedy for each in fixing.applied] == ["raise-recompile-limit"]
    assert [each.remedy for each in fixing.dropped] == ["disable-kv-cache"]
    assert fixing.after is not None
    assert [each.rule for each in fixing.after.findings] == [KV]
    assert [(step.rule, step.automatic) for step in fixing.recipe] == [(KV, False), (INTEGERS, True)]


def test_the_noise_of_a_job_without_a_seed_is_no_change_of_results() -> None:
    noises = iter((0.02, -0.02, -0.01))

    def job(remedies: set[str]) -> Record:
        noise = next(noises)
        losses = [loss * (1 + noise) for loss in LOSSES]
        return record(losses=losses) if remedies else record(finding(KV, "disable-kv-cache"), losses=losses)

    run, made = runs_of(job)
    fixing = fix(run)
    assert fixing.proof is not None
    assert fixing.proof.numerics.verdict == "within noise"
    assert fixing.proof.numerics.noise == pytest.approx(0.03 / 1.02)
    assert made.count(()) == 2


def test_a_remedy_whose_fault_made_results_wrong_says_that_they_change() -> None:
    rule = "attention/packing-leak-mask-or-cache-present"

    def job(remedies: set[str]) -> Record:
        return record(losses=WRONG) if remedies else record(finding(rule, "disable-kv-cache"))

    fixing = fix(runs_of(job)[0])
    assert fixing.proof is not None
    assert fixing.proof.numerics.verdict == "corrected"
    assert fixing.probes == 2


def test_beside_a_correction_another_remedy_still_may_not_change_the_results() -> None:
    rule = "attention/packing-leak-mask-or-cache-present"
    worse = [loss * 1.1 for loss in WRONG]

    def job(remedies: set[str]) -> Record:
        findings = [] if "disable-kv-cache" in remedies else [finding(rule, "disable-kv-cache")]
        if "raise-recompile-limit" not in remedies:
            findings.append(finding(INTEGERS, "raise-recompile-limit"))
        losses = worse if len(remedies) == 2 else WRONG if "disable-kv-cache" in remedies else LOSSES
        return record(*findings, losses=losses)

    fixing = fix(runs_of(job)[0])
    assert [each.remedy for each in fixing.applied] == ["disable-kv-cache"]
    assert [each.remedy for each in fixing.dropped] == ["raise-recompile-limit"]
    assert fixing.proof is not None
    assert fixing.proof.numerics.verdict == "corrected"


def test_a_remedy_with_which_the_job_fails_is_dropped() -> None:
    def job(remedies: set[str]) -> Record:
        return record(code=1) if remedies else record(finding(KV, "disable-kv-cache"))

    fixing = fix(runs_of(job)[0])
    assert fixing.applied == ()
    assert fixing.dropped[0].why == "with it the job fails (ValueError)"
    assert fixing.dropped[0].harmful


def test_a_job_that_fails_is_repaired() -> None:
    def job(remedies: set[str]) -> Record:
        return record() if remedies else record(finding(KV, "disable-kv-cache", severity="error"), losses=(), code=1)

    fixing = fix(runs_of(job)[0])
    assert fixing.proof is not None
    assert fixing.proof.findings_gone
    assert fixing.proof.numerics.verdict == "not compared"
    assert fixing.proof.speed.ratio is None


def test_what_a_cure_uncovers_is_cured_too() -> None:
    def job(remedies: set[str]) -> Record:
        if "disable-kv-cache" not in remedies:
            return record(finding(KV, "disable-kv-cache"))
        return record() if "raise-recompile-limit" in remedies else record(finding(INTEGERS, "raise-recompile-limit"))

    run, made = runs_of(job)
    fixing = fix(run)
    assert [each.remedy for each in fixing.applied] == ["disable-kv-cache", "raise-recompile-limit"]
    assert made == [(), (KV_OFF,), (KV_OFF, LIMIT), (LIMIT,)], "the last to see whether the first is still needed"


def test_a_remedy_without_which_its_finding_is_gone_as_well_is_left_out() -> None:
    def job(remedies: set[str]) -> Record:
        return record() if KV_OFF in remedies else record(finding(KV, KV_OFF), finding(INTEGERS, LIMIT))

    fixing = fix(runs_of(job)[0])
    assert [each.remedy for each in fixing.applied] == [KV_OFF]
    assert [(each.remedy, each.why) for each in fixing.dropped] == [(LIMIT, "the finding is gone without it, too")]
    assert not fixing.dropped[0].harmful


def test_a_remedy_without_which_steps_are_slower_is_kept() -> None:
    def job(remedies: set[str]) -> Record:
        found = () if remedies else (finding(KV, KV_OFF), SLOW)
        return record(*found, seconds=0.05 if {KV_OFF, UNSPECIALIZED} <= remedies else 0.5)

    assert {each.remedy for each in fix(runs_of(job)[0]).applied} == {KV_OFF, UNSPECIALIZED}


def test_of_two_remedies_that_cure_the_faster_one_is_kept() -> None:
    def job(remedies: set[str]) -> Record:
        return record(seconds=0.05 if LIMIT in remedies else 0.08) if remedies else record(SLOW)

    fixing = fix(runs_of(job)[0])
    assert [each.remedy for each in fixing.applied] == [LIMIT]
    assert [each.remedy for each in fixing.dropped] == [UNSPECIALIZED]
    assert "cures it, too; with raise-recompile-limit instead of" in fixing.dropped[0].why
    assert fixing.after is not None
    assert fixing.after.steps.seconds[0] == 0.05


def test_a_remedy_that_leaves_a_note_gives_way_to_one_that_leaves_none() -> None:
    def job(remedies: set[str]) -> Record:
        if LIMIT in remedies:
            return record(msgspec.structs.replace(SLOW, severity="note"), seconds=0.05)
        return record(seconds=0.08) if remedies else record(SLOW)

    fixing = fix(runs_of(job)[0])
    assert [each.remedy for each in fixing.applied] == [UNSPECIALIZED]
    assert [each.remedy for each in fixing.dropped] == [LIMIT]
    assert fixing.dropped[0].why.endswith("the finding is left as a note")


def test_a_faster_remedy_that_changes_the_results_is_not_kept() -> None:
    def job(remedies: set[str]) -> Record:
        if LIMIT in remedies:
            return record(losses=WRONG, seconds=0.05)
        return record(seconds=0.08) if remedies else record(SLOW)

    assert [each.remedy for each in fix(runs_of(job)[0]).applied] == [UNSPECIALIZED]


def test_a_remedy_that_is_no_faster_costs_no_control_run() -> None:
    def job(remedies: set[str]) -> Record:
        return record(*(() if remedies else (SLOW,)), losses=WRONG if LIMIT in remedies else LOSSES)

    run, made = runs_of(job)
    assert [each.remedy for each in fix(run).applied] == [UNSPECIALIZED]
    assert made == [(), (UNSPECIALIZED,), (LIMIT,)]


def test_for_memory_the_remedy_with_the_lowest_peak_is_kept() -> None:
    def job(remedies: set[str]) -> Record:
        if not remedies:
            return record(SLOW, peak=1000)
        return record(seconds=0.05, peak=900) if LIMIT in remedies else record(seconds=0.08, peak=500)

    assert [each.remedy for each in fix(runs_of(job)[0], goal="memory").applied] == [UNSPECIALIZED]
    assert [each.remedy for each in fix(runs_of(job)[0], goal="speed").applied] == [LIMIT]


def test_for_speed_a_remedy_that_makes_steps_slower_is_left_out() -> None:
    def job(remedies: set[str]) -> Record:
        return record(seconds=0.2) if remedies else record(finding(KV, KV_OFF))

    assert [each.remedy for each in fix(runs_of(job)[0]).applied] == [KV_OFF], "what was asked for runs at any cost"
    fixing = fix(runs_of(job)[0], goal="speed")
    assert fixing.applied == ()
    assert fixing.dropped[0].why == "without it a step takes 0.50 times as long"


def test_the_speed_is_measured_over_pairs_in_turn() -> None:
    def job(remedies: set[str]) -> Record:
        return record(seconds=0.05) if remedies else record(finding(KV, KV_OFF))

    run, made = runs_of(job)
    fixing = fix(run, pairs=2)
    assert made == [(), (KV_OFF,), (KV_OFF,), ()]
    assert fixing.proof is not None
    assert fixing.proof.speed.ratio == pytest.approx(2)


def test_remedies_that_exclude_each_other_are_never_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    applications = (Application(remedy="one", excludes=("other",)), Application(remedy="other"))
    monkeypatch.setattr(registry, "APPLICATIONS", applications)
    registry._by_id.cache_clear()

    def job(remedies: set[str]) -> Record:
        return record(*(finding(f"compile/{name}", name) for name in ("one", "other") if name not in remedies))

    try:
        run, made = runs_of(job)
        fix(run)
        assert ("one", "other") not in made
        assert made == [(), ("one",)]
    finally:
        registry._by_id.cache_clear()


def test_the_same_job_gives_the_same_repair_twice() -> None:
    def job(remedies: set[str]) -> Record:
        return record() if remedies else record(finding(KV, "disable-kv-cache"))

    assert fix(runs_of(job)[0]) == fix(runs_of(job)[0])


def test_a_remedy_that_cured_the_finding_of_another_one_is_not_left_out() -> None:
    """Two remedies set one switch: the second finds nothing to change, a third cures what the first was for."""

    def job(remedies: set[str]) -> Record:
        found = [finding(INTEGERS, UNSPECIALIZED)] * (not remedies & {UNSPECIALIZED, DYNAMIC})
        found += [finding(KV, KV_OFF)] * (KV_OFF not in remedies)
        found += [finding(GROWING, DYNAMIC)] * (not remedies & {KV_OFF, DYNAMIC})
        made = record(*found)
        idle = Note(what=unchanged(f"remedy {UNSPECIALIZED}"))
        return msgspec.structs.replace(made, notes=(idle,)) if {UNSPECIALIZED, DYNAMIC} <= remedies else made

    fixing = fix(runs_of(job)[0])
    assert {each.remedy for each in fixing.applied} == {DYNAMIC, KV_OFF}
    assert fixing.after is not None
    assert fixing.after.findings == ()
