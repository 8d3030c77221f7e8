"""What was asked for and what ran, layer by layer."""

from __future__ import annotations

from typing import Any

from written_events import event, launcher, merged, process, ranks, steps

from trueup.runs.events import Event
from trueup.schema.record import Kernel, Recompile


def test_order_and_requests_are_those_of_the_lead() -> None:
    layers = [
        event("layer", t=5.0, layer="sharding", event="fully_shard", module="Block", at="train.py:9", detail={"n": 1}),
        event("layer", t=4.0, layer="compile", event="Module.compile", module="Block", at="train.py:8"),
        event("layer", t=4.0, layer="of a newer trueup", event="x"),
    ]
    asked = [
        event("request", layer="attention", setting="implementation", value="sdpa"),
        event("request", layer="attention", setting="implementation", value="eager"),
    ]
    record = merged(launcher(), *ranks(2, steps(1.0), *layers, *asked))
    assert [(one.layer, one.event, one.at, one.rank) for one in record.order] == [
        ("compile", "Module.compile", "train.py:8", 0),
        ("sharding", "fully_shard", "train.py:9", 0),
    ]
    assert record.requested["attention"] == {"implementation": "eager"}
    assert record.actual.compile.entries == ("Block",)
    assert record.actual.attention.requested == "eager"


def requests(*values: str, layer: str = "sharding", setting: str = "strategy") -> dict[str, dict[str, Any]]:
    asked = [event("request", layer=layer, setting=setting, value=value) for value in values]
    return merged(process(steps(1.0), *asked)).requested


def test_sharding_that_was_asked_for_is_not_withdrawn_by_replication() -> None:
    assert requests("FSDP2", "DDP")["sharding"]["strategy"] == "FSDP2"
    assert requests("DDP")["sharding"]["strategy"] == "DDP"
    assert requests("TP", "FSDP2", "FSDP2")["sharding"]["strategy"] == "TP + FSDP2"
    assert requests("FSDP2", "HSDP")["sharding"]["strategy"] == "HSDP"


def test_configuration_asks_for_one_version_of_fsdp_which_the_plugin_tells_last() -> None:
    sources = {"FSDP1": "TrainingArguments.fsdp", "FSDP2": "fsdp_plugin"}
    asked = [
        event("request", layer="sharding", setting="strategy", value=value, source=source)
        for value, source in [*sources.items(), *sources.items(), ("TP", "parallelize_module")]
    ]
    assert merged(process(steps(1.0), *asked)).requested["sharding"]["strategy"] == "FSDP2 + TP"


def test_precision_is_what_was_asked_for_first() -> None:
    assert requests("bfloat16", "fp16", layer="precision", setting="dtype")["precision"]["dtype"] == "bf16"


def block(status: str) -> dict[str, Any]:
    return {"name": "layers.0", "class": "Block", "status": status, "calls": 1}


def sample(step: int, compiled: int, of: int, *, restless: bool = False, **fields: Any) -> Event:
    blocks = [block("compiled" if number < compiled else "eager") for number in range(of)]
    modules = {
        "root_eager": True,
        "blocks": blocks,
        "parameters_total": 10 * of,
        "parameters_compiled": 10 * compiled,
        "eager": {"Block": of - compiled} if compiled < of else {},
        "regions": compiled,
    }
    return event("sample", step=step, compiled_during=restless, modules=modules, backwards=1, **fields)


def test_coverage_is_the_least_since_the_last_compile() -> None:
    compiles = event("compile", t=50.0, what="start", id="0/1")
    taken = [sample(3, 0, 4, t=10.0), sample(6, 4, 4, t=60.0), sample(7, 1, 4, t=70.0), sample(9, 2, 4, t=80.0)]
    record = merged(process(steps(1.0), compiles, *taken, sample(10, 0, 4, restless=True, t=90.0)))
    compiled = record.actual.compile
    assert (compiled.blocks.total, compiled.blocks.compiled, compiled.blocks.names) == (4, 1, ("Block",))
    assert (compiled.fraction, compiled.regions_per_step, compiled.root_eager) == (0.25, 1, True)
    assert compiled.eager_modules == {"Block": 3}
    assert [(one.step, one.blocks_compiled, one.compiled_during) for one in record.samples] == [
        (3, 0, False),
        (6, 4, False),
        (7, 1, False),
        (9, 2, False),
        (10, 0, True),
    ]


def test_without_a_steady_sample_the_last_one_counts() -> None:
    record = merged(process(steps(1.0), sample(3, 4, 4, restless=True), sample(6, 1, 4, restless=True)))
    assert record.actual.compile.blocks.compiled == 1


def test_an_unwatched_sample_says_nothing_of_modules() -> None:
    record = merged(process(steps(1.0), sample(3, 0, 4, watched=False)))
    assert record.actual.compile.fraction is None
    assert record.samples[0].blocks_compiled is None
    assert record.actual.checkpointing.fraction is None


def test_blocks_that_took_no_part_do_not_count() -> None:
    one = sample(3, 1, 2)
    one["modules"]["blocks"].append(block("idle"))
    assert merged(process(steps(1.0), one)).actual.compile.blocks.total == 2


def dynamo(what: str, **fields: Any) -> Event:
    return event("compile", what=what, **fields)


def test_equal_recompiles_of_a_step_are_one_with_a_count() -> None:
    def again(number: int, step: int) -> Event:
        reasons = [f"0/{number}: self.layer_idx == {number}  # obj 0x7f{number}a", "0/0: other"]
        return dynamo(
            "recompile", id=f"0/{number}", reasons=reasons, function="forward (m.py:3)", at="m.py:9", step=step
        )

    events = [dynamo("start", id="0/0"), *(again(number, 1) for number in range(1, 4)), again(4, 2)]
    limit = dynamo("limit", function="forward (m.py:3)", limit="recompile_limit", reason="last")
    record = merged(*ranks(2, steps(1.0), *events, limit, limit))
    compiled = record.actual.compile
    assert compiled.recompiles == (
        Recompile(
            reason="0/1: self.layer_idx == 1  # obj 0x7f1a", at="m.py:9", count=3, function="forward (m.py:3)", step=1
        ),
        Recompile(
            reason="0/4: self.layer_idx == 4  # obj 0x7f4a", at="m.py:9", count=1, function="forward (m.py:3)", step=2
        ),
    )
    assert compiled.frames == 1
    assert [(hit.function, hit.limit) for hit in compiled.limits] == [("forward (m.py:3)", "recompile_limit")]


def test_breaks_graphs_failures_seconds_and_cache() -> None:
    broken = {"reason": "Tensor.item()", "context": "call_method", "at": "m.py:4", "frame": "m.py:4", "type": "gb0001"}
    events = [
        *(dynamo("break", id=f"0/{n}", explanation="because", **broken) for n in range(2)),
        dynamo("break", id="1/0", reason="other", at="m.py:5"),
        dynamo("graph", id="0/0", checkpoints=2),
        dynamo("graph", id="1/0", checkpoints=0),
        dynamo("failure", id="2/0", error="Unsupported: x", at="m.py:6", function="f"),
        dynamo("seconds", id="0/0", seconds=1.5),
        dynamo("seconds", id="1/0", seconds=0.5),
        dynamo("cache", hit=True),
        dynamo("cache", hit=False),
    ]
    compiled = merged(process(steps(1.0), *events)).actual.compile
    assert [(one.reason, one.explanation, one.count, one.kind) for one in compiled.breaks] == [
        ("Tensor.item()\ncall_method", "because", 2, "gb0001"),
        ("other", None, 1, None),
    ]
    assert (compiled.graphs, compiled.checkpoints_in_graph, compiled.seconds) == (2, 2, 2.0)
    assert (compiled.failures, compiled.cache_hits, compiled.cache_misses) == (("Unsupported: x (m.py:6)",), 1, 1)


FLASH, MATH, SOFTMAX = (
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_attention_math",
    "aten::_softmax over 4 dimensions",
)


def attention(ops: dict[str, int], functions: dict[str, int] | None = None, **fields: Any) -> Event:
    seen = {"ops": ops, "functions": functions or {}, "requested": "sdpa", **fields}
    return sample(3, 0, 1, attention=seen)


def test_kernels_are_added_over_the_steady_samples() -> None:
    wrapper = {"aten::scaled_dot_product_attention": 8}
    first = attention({FLASH: 6, MATH: 2, **wrapper}, masks={"none": 2}, toggles={"flash": True}, packed=False)
    second = attention({FLASH: 8}, masks={"none": 1, "other": 1}, toggles={"flash": False}, packed=True)
    restless = attention({MATH: 100})
    restless["compiled_during"] = True
    record = merged(process(steps(1.0), first, restless, second))
    seen = record.actual.attention
    assert seen.kernels == (
        Kernel(name="sdpa-flash-cpu", calls=14, share=14 / 16, op=FLASH),
        Kernel(name="sdpa-math", calls=2, share=2 / 16, op=MATH),
    )
    assert (seen.fused_fraction, seen.masks) == (14 / 16, {"none": 3, "other": 1})
    assert (seen.toggles, seen.packed, seen.cache, seen.requested) == ({"flash": False}, True, None, "sdpa")
    assert record.samples[0].kernels == {"sdpa-flash-cpu": 6, "sdpa-math": 2}


def test_contexts_of_sdpa_kernel_are_what_the_code_asked_for() -> None:
    seen = [attention({}, contexts=[["EFFICIENT_ATTENTION"], ["FLASH_ATTENTION", "MATH"]]), attention({}, contexts=[])]
    asked = merged(process(*seen, steps(1.0))).requested["attention"]
    assert asked["backends"] == ["EFFICIENT_ATTENTION", "FLASH_ATTENTION, MATH"]
    assert "attention" not in merged(process(attention({}), steps(1.0))).requested


def test_eager_attention_counts_once_though_it_shows_twice() -> None:
    seen = merged(process(steps(1.0), attention({SOFTMAX: 4}, {"eager_attention_forward": 4}))).actual.attention
    assert [(one.name, one.calls) for one in seen.kernels] == [("eager", 4)]
    assert seen.fused_fraction == 0.0
    alone = merged(process(steps(1.0), attention({}, {"eager_attention_forward": 4}))).actual.attention
    assert [(one.name, one.calls) for one in alone.kernels] == [("eager", 4)]
    sdpa = merged(process(steps(1.0), attention({FLASH: 4}, {"sdpa_attention_forward": 4}))).actual.attention
    assert [(one.name, one.calls) for one in sdpa.kernels] == [("sdpa-flash-cpu", 4)]


def test_a_device_kernel_counts_only_without_its_operator() -> None:
    operator, kernel = "aten::_scaled_dot_product_flash_attention", "void flash_fwd_kernel<...>"
    both = merged(process(steps(1.0), attention({operator: 4, kernel: 4}))).actual.attention
    assert [(one.name, one.calls) for one in both.kernels] == [("sdpa-flash", 4)]
    alone = merged(process(steps(1.0), attention({kernel: 4}))).actual.attention
    assert [(one.name, one.calls) for one in alone.kernels] == [("flash", 4)]


MODEL = event(
    "model",
    roots=[{"name": "", "class": "Model"}],
    blocks={"total": 4, "classes": ["Block"]},
    parameters={
        "tensors": 10,
        "elements": 100,
        "trainable_tensors": 4,
        "trainable_elements": 5,
        "dtypes": {"float32": 25, "bfloat16": 75},
    },
    sharding={"strategy": "FSDP2", "bytes_total": 200, "bytes_sharded": 150, "units": 5, "reduce_dtype": "float32"},
    adapter={"parameters": 4, "trainable": 2, "names": ["q_proj.lora_A"], "trainable_elements": 5, "elements": 5},
    optimizer={"names": ["AdamW"], "tensors": 4, "in_no_optimizer": ["head.weight"], "not_of_model": 1, "of_model": 3},
    compile_entries=4,
    tied={"config": True, "actual": False},
)


def test_what_the_model_is() -> None:
    record = merged(process(steps(1.0, 2.0), MODEL))
    actual = record.actual
    assert (actual.sharding.strategy, actual.sharding.fraction, actual.sharding.units) == ("FSDP2", 0.75, 5)
    assert actual.precision.parameters == {"bfloat16": 0.75, "float32": 0.25}
    assert actual.precision.reduce_dtype == "float32"
    assert (actual.adapter.trainable_fraction, actual.adapter.names) == (0.05, ("q_proj.lora_A",))
    assert (actual.adapter.adapter_parameters, actual.adapter.adapter_trainable) == (4, 2)
    training = actual.training
    assert (training.observed, training.parameters, training.trainable, training.not_of_model) == (True, 10, 4, 1)
    assert (training.in_no_optimizer, training.optimizers) == (("head.weight",), ("AdamW",))
    assert (training.accumulation, training.models) == (2, ("Model",))
    assert (training.tied_requested, training.tied) == (True, False)
    assert (actual.compile.holders, actual.compile.blocks.total, actual.compile.fraction) == (4, 4, None)


def test_what_no_sample_saw_trained_is_named() -> None:
    def seen(without: list[str], unchanged: list[str], still: int) -> Event:
        return sample(
            3,
            0,
            1,
            gradients={"without": without, "without_count": len(without), "dtypes": {"float32": 4}},
            updates={"unchanged": unchanged, "elements_probed": 10, "elements_unchanged": still, "adapter_changed": 0},
            matmul={"bfloat16": 30, "float32": 10},
            collectives={"all_gather": 4},
            optimizer_state={"float32": 8},
            training_mode=False,
            reducing_backwards=1,
            random_ops={"aten::bernoulli_": 3},
            random_in_backward={"aten::bernoulli_": 1},
        )

    record = merged(process(steps(1.0), seen(["expert", "lost"], ["w"], 2), seen(["lost"], ["w", "v"], 4)))
    training, precision = record.actual.training, record.actual.precision
    assert (training.without_gradient, training.unchanged) == (("lost",), ("w",))
    assert (training.without_gradient_count, training.training_mode) == (1, False)
    assert precision.matmul == {"bfloat16": 0.75, "float32": 0.25}
    assert precision.gradients == {"float32": 1.0}
    assert precision.optimizer_state == {"float32": 1.0}
    assert precision.unchanged_share == 0.3
    assert record.actual.sharding.collectives == {"all_gather": 4}
    assert record.actual.sharding.reducing_backwards == 1
    assert (record.actual.checkpointing.random_ops, record.actual.checkpointing.random_again) == (3, 1)
    assert record.actual.adapter.adapter_changed == 0


def checkpointed(compiled: int, regions: int, graphs: list[int], **seen: int) -> Any:
    one = sample(3, compiled, 4, checkpointing=seen)
    one["modules"]["regions"] = regions
    one["backwards"] = 2
    captured = [dynamo("graph", id=f"{number}/0", checkpoints=count) for number, count in enumerate(graphs)]
    return merged(process(steps(1.0), *captured, one)).actual.checkpointing


def test_the_share_of_blocks_that_ran_again() -> None:
    assert checkpointed(0, 0, []).fraction == 0.0
    half = checkpointed(0, 0, [], calls=4, reentrant_calls=0, recomputed=4)  # two blocks in each of two passes
    assert (half.fraction, half.reentrant, half.calls) == (0.5, False, 4)
    assert (
        checkpointed(0, 0, [], calls=2, blocks=6, recomputed=2).fraction == 0.75
    )  # checkpoint_sequential: three a call
    assert checkpointed(0, 0, [], calls=8, reentrant_calls=8, recomputed=8).reentrant is True
    assert checkpointed(0, 0, [], calls=8, reentrant_calls=0, recomputed=0).fraction == 0.0


def test_checkpoints_before_the_model_was_left_in_eval_mode() -> None:
    def calls(number: int, training: bool) -> Event:
        return sample(3, 0, 4, checkpointing={"calls": number}, training_mode=training)

    def merged_calls(*samples: Event) -> int | None:
        return merged(process(steps(1.0), *samples)).actual.checkpointing.calls_in_training_mode

    assert merged_calls(calls(6, True), calls(0, False)) == 6
    assert merged_calls(calls(6, True), calls(0, True)) is None
    assert merged_calls(calls(0, True), calls(0, False)) is None
    assert merged_calls(calls(6, True), calls(6, False)) is None


def test_checkpoints_inside_graphs_count() -> None:
    block_by_block = checkpointed(4, 8, [1])
    assert (block_by_block.fraction, block_by_block.reentrant) == (1.0, False)
    assert checkpointed(4, 1, [3]).fraction == 0.75
    assert checkpointed(4, 1, [0]).fraction == 0.0


def test_memory_is_the_highest_of_all_ranks() -> None:
    logs = ranks(2, steps(1.0), event("memory", peak_bytes=5, source="resident set"))
    logs[1].events.insert(1, event("memory", peak_bytes=9, source="resident set"))
    memory = merged(*logs).actual.memory
    assert (memory.peak_bytes, memory.source, memory.per_rank) == (9, "resident set", {"0": 5, "1": 9})
