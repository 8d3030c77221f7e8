"""`sharding=off` on FSDP1 and FSDP2 over two ranks that begin with different parameters."""

from __future__ import annotations

import pytest
from switched_jobs import Switch

JOB = "two_ranks.py"


def test_sharding_off_replicates_and_trains_the_same(switch: Switch) -> None:
    sharded, replicated = switch(JOB, ranks=2), switch(JOB, ranks=2, sharding="off")
    whole = sharded.printed["whole"]

    assert sharded.record.actual.sharding.fraction == 1.0
    assert sharded.printed["fsdp1 held"] < 0.6 * whole
    assert sharded.printed["fsdp2 held"] < 0.6 * whole
    assert sharded.switched_layers() == set()

    assert replicated.record.actual.sharding.fraction == 0.0
    assert replicated.record.actual.sharding.replicas == 2
    assert (replicated.printed["fsdp1 held"], replicated.printed["fsdp2 held"]) == (whole, whole)
    assert replicated.printed["fsdp2 class"] is True
    assert (sharded.printed["fsdp2 sharded"], replicated.printed["fsdp2 sharded"]) == (True, False)
    assert (replicated.printed["fsdp1 agree"], replicated.printed["fsdp2 agree"]) == (True, True)
    assert replicated.details("sharding") == {
        ("Model", "parameters stay whole, gradients are averaged over 2 ranks"),
        ("Block", "parameters stay whole, gradients are averaged over 2 ranks"),
    }
    assert replicated.record.notes == ()

    for kind in ("fsdp1", "fsdp2"):
        for replicated_values, sharded_values in zip(replicated.printed[kind], sharded.printed[kind], strict=True):
            assert replicated_values == pytest.approx(sharded_values, rel=1e-4)


@pytest.mark.slow
def test_what_programs_do_with_fsdp_gives_the_same_with_sharding_off(switch: Switch) -> None:
    """Accumulation, mixed precision, meta device, state dicts, hooks, compiled and checkpointed units, clipping."""
    sharded = switch("two_ranks_whole.py", "fsdp", ranks=2)
    whole = switch("two_ranks_whole.py", "fsdp", "whole", ranks=2, sharding="off")
    assert len(sharded.printed) == 12
    for name, numbers in sharded.printed.items():
        assert whole.printed[name] == pytest.approx(numbers, rel=1e-4), name
    assert whole.printed["whole_partly_used"][-1] == 0.0
    assert (whole.record.actual.sharding.fraction, whole.record.actual.sharding.strategy) == (0.0, "replicated")
    assert (whole.record.notes, whole.observers_off(), whole.details("sharding", "cannot")) == ((), [], set())


def test_float64_from_where_ddp_and_fsdp_wrap(switch: Switch) -> None:
    run = switch(JOB, ranks=2, precision="fp64")
    assert run.record.actual.precision.matmul == {"float64": 1.0}
    assert run.record.actual.precision.parameters == {"float64": 1.0}
    assert run.observers_off() == []


def test_fsdp1_flattens_no_parameter_of_an_adapter_that_is_off(switch: Switch) -> None:
    """Else its dtype, and that it is frozen, would still decide whether FSDP1 takes the unit."""
    refused, taken = switch("flat_adapters.py", ranks=2), switch("flat_adapters.py", ranks=2, adapter="off")
    assert "uniform dtype" in refused.printed["dtypes"]
    assert "requires_grad=False" in refused.printed["frozen"]
    for losses in taken.printed.values():
        assert losses[-1] < losses[0]
    assert taken.details("adapter", "cannot") == set()


def test_sharding_off_trains_replicas_without_the_reducer_of_ddp(switch: Switch) -> None:
    replicas, whole = switch("two_ranks_ddp.py", ranks=2), switch("two_ranks_ddp.py", ranks=2, sharding="off")
    for name in ("plain", "accumulated", "static", "unused are looked for"):
        assert whole.printed[name] == pytest.approx(replicas.printed[name], rel=1e-5), name
    for name in ("shared", "partly used"):
        assert "Expected to" in replicas.printed[name]
        assert isinstance(whole.printed[name], list), name
    assert (whole.observers_off(), whole.details("sharding", "cannot")) == ([], set())
