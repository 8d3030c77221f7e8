"""`trueup.prepare` with a real Accelerator, alone and on two ranks."""

import json

import pytest
import torch
from small import Model, batches, train

import trueup
from trueup_runs import PYTHON, SCRIPTS, plain_run

accelerate = pytest.importorskip("accelerate")

POLICY = trueup.CompilePolicy(backend="aot_eager", fullgraph=True)


@pytest.fixture(autouse=True)
def fresh_state(monkeypatch):
    from accelerate.state import AcceleratorState, GradientState, PartialState

    def forget():
        for state in (AcceleratorState, GradientState, PartialState):
            state._reset_state()

    monkeypatch.delenv("ACCELERATE_USE_FSDP", raising=False)
    forget()
    yield
    forget()


def reports(folder, request, *launch, precision):
    done = plain_run(folder, *launch, request.path.parent / "jobs" / "accelerated.py", precision, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.removeprefix("REPORT ") for line in done.stdout.splitlines() if line.startswith("REPORT ")]
    return sorted(map(json.loads, lines), key=lambda report: report["rank"])


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_one_process(tmp_path, request, precision):
    (report,) = reports(tmp_path, request, PYTHON, precision=precision)
    assert report["kinds"] == ["AcceleratedOptimizer", "DataLoaderShard", "AcceleratedScheduler"]
    assert report["problems"] == []
    assert report["compiled"] == 3
    assert report["bound"]
    assert report["losses"] == pytest.approx(report["expected"], rel=1e-5 if precision == "no" else 0.03)


def test_two_ranks(tmp_path, request):
    launch = (SCRIPTS / "torchrun", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0")
    both = reports(tmp_path, request, *launch, precision="no")
    assert [(r["ranks"], r["model"], r["problems"], r["compiled"], r["bound"]) for r in both] == [
        (2, "DistributedDataParallel", [], 3, True)
    ] * 2
    assert len(both[0]["losses"]) == 4, "each rank has half of the batches"


def test_a_single_object_comes_back_alone():
    model = Model()
    prepared = trueup.prepare(accelerate.Accelerator(cpu=True), model, policy=POLICY)
    assert prepared is model
    train(prepared, batches([2, 2]))
    assert trueup.composition(prepared).check().require().blocks_compiled == 3


def test_a_model_compiled_whole_by_accelerate_is_refused():
    accelerator = accelerate.Accelerator(cpu=True, dynamo_backend="aot_eager")
    with pytest.raises(trueup.ComposeError, match="dynamo_backend='no'"):
        trueup.prepare(accelerator, Model(), policy=POLICY)


def test_sharding_that_accelerate_ignores_is_refused():
    plugin = accelerate.FullyShardedDataParallelPlugin(fsdp_version=2)
    accelerator = accelerate.Accelerator(cpu=True, fsdp_plugin=plugin)
    model = Model()
    with pytest.raises(trueup.ComposeError, match=r"ignores the FSDP plugin.*trueup\.compose"):
        trueup.prepare(accelerator, model, torch.optim.SGD(model.parameters()), policy=POLICY)


def test_a_compiled_model_is_refused():
    with pytest.raises(trueup.ComposeError, match=r"without torch\.compile"):
        trueup.prepare(accelerate.Accelerator(cpu=True), torch.compile(Model()), policy=POLICY)


def test_an_optimizer_is_bound_to_what_its_model_became():
    from trueup.compose.preparing import _bind, _named

    before, after = Model(), Model()
    optimizer = torch.optim.SGD(before.parameters(), lr=0.1)
    names = {id(parameter): (before, name) for name, parameter in _named(before)}
    _bind(optimizer, names, {id(before): after})
    assert [id(p) for p in optimizer.param_groups[0]["params"]] == [id(p) for p in after.parameters()]


def test_other_models_have_no_composition():
    with pytest.raises(KeyError):
        trueup.composition(Model())
