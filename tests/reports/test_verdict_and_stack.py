"""The verdict and the stack table say what the record says, and nothing about layers that nobody asked for or saw."""

import msgspec
import pytest

from trueup.reports.stack import stack_rows
from trueup.reports.verdict import verdict
from trueup.schema.record import (
    Actual,
    Adapter,
    Applied,
    Attention,
    Blocks,
    Checkpointing,
    Compile,
    Exit,
    Kernel,
    Launch,
    Precision,
    Rank,
    Record,
    Sharding,
    Training,
)

UNFINISHED = Exit()
NOT_LAUNCHED = Launch()
ONE_RANK = (Rank(rank=0, trained=True, steps=3),)


def record_with(requested=None, launch=NOT_LAUNCHED, order=(), ranks=ONE_RANK, exit=UNFINISHED, **actual):
    return Record(
        ranks=ranks, requested=requested or {}, launch=launch, order=order, exit=exit, actual=Actual(**actual)
    )


def row(record, layer):
    return next(row for row in stack_rows(record) if row.layer == layer)


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (record_with(), "no findings"),
        (
            record_with(compile=Compile(fraction=1.0, blocks=Blocks(total=12, compiled=12), graphs=1)),
            "compile: 12/12 blocks compiled; no findings",
        ),
        (
            record_with(compile=Compile(fraction=0.4, graphs=3)),
            "compile: 40 % of the parameters ran compiled; no findings",
        ),
        (record_with(compile=Compile(graphs=3)), "compile: 3 graphs, coverage not sampled yet; no findings"),
        (record_with(compile=Compile(entries=("Linear",))), "compile: no graph; no findings"),
        (
            record_with({"compile": {"backend": "inductor"}}, compile=Compile(fraction=0.0, blocks=Blocks(total=2))),
            "compile: 0/2 blocks compiled; no findings",
        ),
        (
            record_with(
                order=(Applied(layer="compile", event="torch.compile", module="Net"),),
                compile=Compile(fraction=0.0, blocks=Blocks(total=2)),
            ),
            "compile: 0/2 blocks compiled; no findings",
        ),
        (record_with(compile=Compile(fraction=0.0, blocks=Blocks(total=2))), "no findings"),
        (record_with({"compile": {"backend": "inductor"}}), "compile: not seen; no findings"),
        (record_with({"sharding": {"strategy": "FSDP2"}}), "sharding: none; no findings"),
        (
            record_with(
                attention=Attention(
                    kernels=(Kernel(name="sdpa-math", calls=9, share=0.75), Kernel(name="flash", calls=3, share=0.25)),
                    fused_fraction=0.25,
                )
            ),
            "attention: sdpa-math 75 %, flash 25 % (25 % fused); no findings",
        ),
        (
            record_with(launch=Launch(requested_world_size=2, world_size=1), sharding=Sharding(strategy="none")),
            "1 of 2 processes trained; no findings",
        ),
        (
            record_with(launch=Launch(world_size=8), sharding=Sharding(strategy="DDP")),
            "DDP over 8 ranks; no findings",
        ),
        (
            record_with(checkpointing=Checkpointing(fraction=0.5, calls=6)),
            "checkpointing: 50 % of the blocks; no findings",
        ),
        (record_with(precision=Precision(matmul={"float32": 1.0})), "no findings"),
        (record_with(precision=Precision(matmul={"complex64": 0.5, "complex128": 0.5})), "no findings"),
        (
            record_with(precision=Precision(matmul={"bfloat16": 0.999, "float32": 0.001})),
            "matmuls: bfloat16 > 99 %; no findings",
        ),
        (
            record_with(adapter=Adapter(names=("default",), trainable_fraction=0.004)),
            "adapter: < 1 % of the parameters trainable; no findings",
        ),
        (record_with(ranks=()), "nothing observed: no rank has reported; no findings"),
        (
            record_with(exit=Exit(code=137, signal="SIGKILL")),
            "killed by SIGKILL; no findings",
        ),
        (record_with(exit=Exit(code=143, reason="timeout")), "stopped by --timeout; no findings"),
        (record_with(exit=Exit(code=0, reason="steps reached")), "no findings"),
    ],
)
def test_the_verdict(record, sentence):
    assert verdict(record) == sentence


def test_a_block_count_that_was_not_sampled_is_no_zero():
    """Blocks are counted when the model is known; how many run compiled is known from a sampled step only."""
    record = record_with(compile=Compile(fraction=None, blocks=Blocks(total=12), entries=("Block",)))
    assert verdict(record) == "compile: no graph; no findings"
    assert row(record, "compile").coverage == "not sampled"


def test_findings_are_counted_by_severity(demo_record):
    error = msgspec.structs.replace(demo_record.findings[0], severity="error")
    record = msgspec.structs.replace(demo_record, findings=(*demo_record.findings * 2, error))
    assert verdict(record).endswith("; 1 error, 2 warnings")


def test_the_demo_stack(demo_record):
    rows = {each.layer: each for each in stack_rows(demo_record)}
    assert list(rows) == ["launcher", "sharding", "compile", "trainer", "attention"]
    assert rows["launcher"].coverage == "2/2"
    assert rows["compile"].requested == "Module.compile: 12 × LlamaDecoderLayer"
    assert rows["compile"].coverage == "0/12 blocks, 0 %"
    assert (
        rows["compile"].actual == "9 graphs, 17 recompiles, 1 break, recompile limit reached, outermost forward eager"
    )
    assert rows["compile"].why == demo_record.findings[0].message
    assert rows["sharding"].requested == "FSDP2"
    assert rows["sharding"].coverage == "100 % sharded"
    assert rows["attention"].why == ""


def test_layers_that_nobody_asked_for_or_saw_are_left_out():
    record = record_with(sharding=Sharding(strategy="none"), precision=Precision(matmul={"float32": 1.0}))
    assert stack_rows(record) == []


def test_a_layer_that_was_asked_for_and_not_seen_is_shown():
    record = record_with({"checkpointing": {"gradient_checkpointing": True}}, checkpointing=Checkpointing(fraction=0.0))
    assert row(record, "checkpointing").requested == "gradient_checkpointing"
    assert row(record, "checkpointing").actual == "none"
    assert row(record, "checkpointing").coverage == "0 % of blocks"


def test_full_precision_that_was_not_asked_for_is_shown_against_the_request():
    record = record_with({"precision": {"mixed_precision": "bf16"}}, precision=Precision(matmul={"float32": 1.0}))
    assert row(record, "precision").requested == "mixed_precision: bf16"
    assert row(record, "precision").coverage == "0 % low"


def test_the_worst_finding_of_the_layer_itself_gives_the_reason(demo_record):
    (warning,) = demo_record.findings
    note = msgspec.structs.replace(warning, severity="note", message="a note")
    other = msgspec.structs.replace(
        warning,
        rule="attention/x",
        layers=("attention", "compile", "trainer"),
        severity="error",
        message="about attention",
    )
    record = msgspec.structs.replace(demo_record, findings=(note, other, warning))
    assert row(record, "compile").why == warning.message
    assert row(record, "attention").why == "about attention"
    assert row(record, "trainer").why == "", "all 111 tensors are trained: nothing to look up"
    half = Training(observed=True, trainable=2, in_no_optimizer=("head.weight",), optimizers=("SGD",))
    actual = msgspec.structs.replace(record.actual, training=half)
    assert row(msgspec.structs.replace(record, actual=actual), "trainer").why == "see attention/x"


def test_events_of_the_lowest_rank_tell_what_the_code_asked_for():
    order = tuple(Applied(layer="sharding", event="fully_shard", module="Block", rank=rank) for rank in (1, 0, 0, 1, 1))
    assert row(record_with(order=order), "sharding").requested == "fully_shard: 2 × Block"


def test_a_move_to_another_device_is_no_precision_layer():
    move = Applied(
        layer="precision", event="to", module="Model", detail={"dtype": "float32", "dtype_before": "float32"}
    )
    cast = Applied(
        layer="precision", event="to", module="Model", detail={"dtype": "bfloat16", "dtype_before": "float32"}
    )
    full = Precision(matmul={"float32": 0.5, "complex64": 0.5})
    assert stack_rows(record_with(order=(move,), precision=full)) == []
    assert row(record_with(order=(move, cast), precision=full), "precision").requested == "to: Model"


def test_what_was_switched_off_was_not_requested():
    """A checkpoint's recomputation enters autocast switched off when the forward ran without."""
    entered = Applied(layer="precision", event="autocast", detail={"dtype": "bfloat16", "enabled": False})
    switched_on = Applied(layer="precision", event="autocast", detail={"dtype": "bfloat16", "enabled": True})
    full = Precision(matmul={"float32": 1.0})
    assert stack_rows(record_with(order=(entered,), precision=full)) == []
    assert row(record_with(order=(entered, switched_on), precision=full), "precision").requested == "autocast"


def test_many_different_events_are_counted():
    order = tuple(Applied(layer="sharding", event="fully_shard", module=f"Block{number}") for number in range(9))
    assert row(record_with(order=order), "sharding").requested.endswith("fully_shard: Block3, 5 more")


def test_parameters_in_no_optimizer_lower_the_coverage():
    training = Training(
        observed=True, parameters=10, trainable=10, in_no_optimizer=("head.weight",), optimizers=("SGD",)
    )
    assert row(record_with(training=training), "trainer").coverage == "9/10 tensors"
    many = Training(observed=True, trainable=60, in_no_optimizer=("head.weight",), in_no_optimizer_count=52)
    assert row(record_with(training=many), "trainer").coverage == "8/60 tensors"
