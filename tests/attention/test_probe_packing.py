"""`trueup run --probe packing`: found from outside, and the training does not notice that it was asked."""

import json
from pathlib import Path

import pytest

from trueup.reports import text
from trueup_runs import PYTHON, SCRIPTS, trueup_run

HERE = Path(__file__).parent
JOB = HERE / "jobs" / "packed.py"
GAUNTLET = HERE.parents[0] / "gauntlet" / "attention"
PROBE = ("--probe", "packing")
BY_ATTENTION = "attention/packing-without-varlen-attention"
BY_MASK_OR_CACHE = "attention/packing-leak-mask-or-cache-present"


def both(folder, kind, ranks=1, **variables):
    """The job without and with the probe."""
    launch = [str(SCRIPTS / "torchrun"), "--nproc-per-node", str(ranks)] if ranks > 1 else [PYTHON]
    runs = []
    for name, options in (("plain", ()), ("probed", PROBE)):
        (folder / name).mkdir()
        runs.append(trueup_run(folder / name, *launch, JOB, kind, options=options, **variables))
    for run in runs:
        assert run.code == 0, run.stderr
        assert "switched itself off" not in run.notes, run.notes
    return runs


def lines(run):
    return sorted(line for line in run.stdout.splitlines() if "0x" in line)


def same_training(plain, probed):
    """Losses bit by bit, random numbers, calls counted by the modules, graphs, recompiles, breaks, and the stack."""
    assert lines(plain) == lines(probed) != []
    one, other = plain.record.actual.compile, probed.record.actual.compile
    assert (one.graphs, one.frames, one.breaks) == (other.graphs, other.frames, other.breaks)
    assert [(each.reason, each.count) for each in one.recompiles] == [
        (each.reason, each.count) for each in other.recompiles
    ]
    assert [each.event for each in plain.record.order] == [each.event for each in probed.record.order]
    assert one.holders == other.holders


def rules(run, confidence="established"):
    return [each.rule for each in run.record.findings if each.confidence == confidence]


@pytest.mark.parametrize(
    ("kind", "ranks"),
    [
        ("leaking", 1),
        pytest.param("accumulating", 1, marks=pytest.mark.slow),
        pytest.param("compiled", 1, marks=pytest.mark.slow),
        pytest.param("whole", 1, marks=pytest.mark.slow),
        ("fsdp", 2),
        pytest.param("ddp", 2, marks=pytest.mark.slow),
    ],
)
def test_a_leak_is_found_and_training_stays_bit_for_bit_the_same(tmp_path, kind, ranks):
    plain, probed = both(tmp_path, kind, ranks)
    same_training(plain, probed)
    assert plain.record.actual.attention.leakage is None
    found = probed.record.actual.attention.leakage
    assert (found.verdict, found.source, found.target, found.documents) == ("leak", 1, 2, 8)
    assert found.change > 0.1
    assert found.ranks == (0,)
    if kind == "ddp":  # normalises over the batch: other rows move as well, which attention cannot do
        assert found.other_rows > 0.1 * found.change
    else:
        assert rules(probed) == [BY_ATTENTION]
        assert BY_ATTENTION not in rules(plain)
    said = text.render(probed.record, width=300)
    assert f"changes document 2 by {found.change:.3g} of {found.scale:.3g} in the logits (8 documents in 2 rows" in said


def test_a_sound_job_gives_exactly_nothing_and_no_finding(tmp_path):
    probed = trueup_run(tmp_path, PYTHON, JOB, "masked", options=PROBE)
    found = probed.record.actual.attention.leakage
    assert (found.verdict, found.change, found.other_rows, found.dtype) == ("none", 0.0, 0.0, "bfloat16")
    assert [each.rule for each in probed.record.findings] == []
    assert "exactly 0.0 in the logits" in text.render(probed.record, width=300)


@pytest.mark.slow
def test_a_sound_job_stays_the_same(tmp_path):
    same_training(*both(tmp_path, "masked"))


@pytest.mark.slow
def test_a_job_that_is_not_packed_says_so(tmp_path):
    run = trueup_run(tmp_path, PYTHON, JOB, "unpacked", options=PROBE, BATCHES="10")
    assert run.record.actual.attention.leakage.verdict == "not packed"
    assert "8 training forward passes" in run.record.actual.attention.leakage.reason
    assert "packing-" not in str([each.rule for each in run.record.findings])


def probed_case(folder, slug, script="train.py", *options):
    return trueup_run(folder, PYTHON, GAUNTLET / slug / script, options=(*PROBE, "--steps", "4", *options))


@pytest.mark.parametrize(
    "slug",
    [
        "packing-leak-mask-or-cache-present",
        pytest.param("packing-leak-cache-default", marks=pytest.mark.slow),
        pytest.param("packing-leak-under-lora", marks=pytest.mark.slow),
    ],
)
def test_jobs_of_transformers_and_their_remedy(tmp_path, slug):
    for name in ("broken", "remedied"):
        (tmp_path / name).mkdir()
    broken = probed_case(tmp_path / "broken", slug)
    assert broken.record.actual.attention.leakage.verdict == "leak"
    assert BY_MASK_OR_CACHE in rules(broken)
    variant = tmp_path / "remedy.toml"
    variant.write_text('remedies = ["leak-free-packing"]\n')
    remedied = probed_case(tmp_path / "remedied", slug, "train.py", "--with", str(variant))
    found = remedied.record.actual.attention.leakage
    assert (found.verdict, found.change) == ("none", 0.0)
    assert "packing-" not in str([each.rule for each in remedied.record.findings])
    assert remedied.record.steps.losses != broken.record.steps.losses


@pytest.mark.slow
def test_the_remedy_trains_as_the_mended_job(tmp_path):
    slug = "packing-leak-mask-or-cache-present"
    variant = tmp_path / "remedy.toml"
    variant.write_text('remedies = ["leak-free-packing"]\n')
    runs = []
    for name, script, options in (("remedied", "train.py", ("--with", str(variant))), ("fixed", "fixed.py", ())):
        (tmp_path / name).mkdir()
        runs.append(probed_case(tmp_path / name, slug, script, *options))
    assert runs[0].stdout == runs[1].stdout != ""
    assert runs[1].record.actual.attention.leakage.change == 0.0


@pytest.mark.slow
def test_fix_proves_its_remedy_by_the_probe(tmp_path):
    import subprocess

    words = [PYTHON, "-m", "trueup", "fix", "--quiet", "--steps", "6", *PROBE, "--format", "json"]
    slug = "packing-leak-mask-or-cache-present"
    (tmp_path / "train.py").write_text((GAUNTLET / slug / "train.py").read_text())
    done = subprocess.run([*words, "--", PYTHON, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    fixing = json.loads(done.stdout)
    assert fixing["before"]["actual"]["attention"]["leakage"]["verdict"] == "leak"
    assert fixing["after"]["actual"]["attention"]["leakage"]["change"] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_beside_packed_rows_and_the_remedy(tmp_path, side):
    job = HERE / "jobs" / "padded.py"
    variant = tmp_path / "remedy.toml"
    variant.write_text('remedies = ["leak-free-packing"]\n')
    runs = {}
    for name, words, options in (
        ("broken", (), ()),
        ("remedied", (), ("--with", str(variant))),
        ("exact", ("exact",), ()),
    ):
        (tmp_path / name).mkdir()
        runs[name] = trueup_run(tmp_path / name, PYTHON, job, side, *words, options=(*PROBE, *options))
    assert runs["broken"].record.actual.attention.leakage.verdict == "leak"
    assert BY_MASK_OR_CACHE in rules(runs["broken"])
    losses = {name: [float(line) for line in run.stdout.splitlines()] for name, run in runs.items()}
    for name in ("remedied", "exact"):
        assert runs[name].record.actual.attention.leakage.change == 0.0
        assert len(losses[name]) == 4
    assert losses["remedied"] == pytest.approx(losses["exact"], rel=1e-6)
    assert losses["broken"] != pytest.approx(losses["exact"], rel=1e-6)
