"""Plans on two real ranks: what was composed trains like the plain model, and is what was asked for."""

import json

import pytest

from trueup_runs import SCRIPTS, plain_run

PLANS = (
    "none",
    "fsdp2",
    "fsdp2+ac+compile+fullgraph",
    "fsdp2+ac+compile+bf16",
    "fsdp1+compile",
    "fsdp1+ac+compile+bf16",
    "ddp+ac+compile+fullgraph",
    "ddp+ac+compile+bf16",
    "tp+compile",
    "tp+fsdp2+ac+compile",
)


@pytest.fixture(scope="module")
def reports(request, tmp_path_factory):
    job = request.path.parent / "jobs" / "two_ranks.py"
    launch = (SCRIPTS / "torchrun", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0")
    done = plain_run(tmp_path_factory.mktemp("two-ranks"), *launch, job, *PLANS, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.removeprefix("REPORT ") for line in done.stdout.splitlines() if line.startswith("REPORT ")]
    return {report["plan"]: report for report in map(json.loads, lines)}


@pytest.mark.parametrize("plan", PLANS)
def test_trains_like_the_plain_model(reports, plan):
    report = reports[plan]
    tolerance = 0.02 if "bf16" in plan else 1e-5
    assert report["losses"] == pytest.approx(report["expected"], abs=tolerance)
    assert ("bf16" in plan) == (report["losses"] != pytest.approx(report["expected"], abs=1e-5))
    assert report["losses"][-1] < report["losses"][0]


@pytest.mark.parametrize("plan", PLANS)
def test_is_what_was_asked_for(reports, plan):
    report = reports[plan]
    assert report["problems"] == []
    assert report["problems_before"], "before the first step nothing can have been observed"
    assert report["same_names"], "names in the state dict changed"
    assert report["compiled"] == (3 if "compile" in plan else None)
    assert report["checkpointed"] == (3 if "ac" in plan.split("+") else None)
    assert report["low_precision"] == (True if "bf16" in plan else None)
    if "fsdp" in plan:
        alone = "tp" in plan  # one rank on the mesh's dimension for data: what the styles leave whole stays whole
        assert report["sharded"] == (pytest.approx(0.725, abs=0.001) if alone else 1)


def test_lengths_that_vary_cost_one_recompile_of_the_first_block(reports):
    report = reports["fsdp2+ac+compile+fullgraph"]
    assert report["recompiled"] == [1, 1, 1]
    assert sum(report["recompiles"].values()) == 1


def test_the_order_is_told(reports):
    assert [step.partition(":")[0] for step in reports["tp+fsdp2+ac+compile"]["applied"]] == [
        "sharding",
        "checkpointing",
        "compile",
        "sharding",
    ]
    assert [step.partition(":")[0] for step in reports["ddp+ac+compile+bf16"]["applied"]] == [
        "checkpointing",
        "compile",
        "sharding",
        "precision",
    ]


def test_blocks_are_not_cut_at_the_buckets_of_ddp(reports):
    assert reports["ddp+ac+compile+fullgraph"]["settings"] == ["optimize_ddp"]
