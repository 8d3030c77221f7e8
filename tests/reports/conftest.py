"""A record as the demo makes it: FSDP2 over two ranks and per-block compile that the cache of generation undoes."""

import msgspec
import pytest

from trueup.schema.finding import Evidence, Finding, Remedy
from trueup.schema.record import (
    Actual,
    Applied,
    Attention,
    Blocks,
    Compile,
    Exit,
    GraphBreak,
    Kernel,
    Launch,
    LimitHit,
    Memory,
    Note,
    Precision,
    Rank,
    Recompile,
    Record,
    Sample,
    Sharding,
    Steps,
    Training,
)

LINE = "examples/finetune.py:61"

CACHE = Finding(
    rule="compile/kv-cache-recompiles-each-block",
    layers=("compile",),
    severity="warning",
    confidence="established",
    message="0 of 12 compiled blocks run compiled since step 9: each of 12 layers recompiled until the limit of 8",
    cause="The model keeps its default use_cache=True in training, so each block receives the cache object and Dynamo "
    "guards on layer_idx and on the state of the cache; at the first new sequence length the limit is reached.",
    evidence=(
        Evidence(what="blocks compiled in the last sampled step", value=0, at=LINE, ranks=(0, 1)),
        Evidence(what="recompiles on `cache.layers[i].is_initialized`", value=17, at="examples/finetune.py:70"),
    ),
    remedies=(
        Remedy(
            id="use-cache-off",
            kind="in-process",
            automatic=True,
            how="model(input_ids, labels=labels, use_cache=False)",
        ),
        Remedy(id="use-cache-config", kind="code", automatic=False, how="model.config.use_cache = False"),
    ),
    sources=("https://github.com/huggingface/transformers/issues/1",),
)


@pytest.fixture
def demo_record():
    return Record(
        trueup_version="0.1.0",
        command=("torchrun", "--nproc-per-node", "2", "examples/finetune.py"),
        variant={"name": "as is"},
        started="2026-01-02T03:04:05+00:00",
        duration_s=141.2,
        exit=Exit(code=0),
        environment={"python": "3.11.7", "torch": "2.13.0", "packages": {"transformers": "5.24.0"}},
        launch=Launch(requested_world_size=2, world_size=2, launchers=("torchrun",), source="--nproc-per-node"),
        ranks=tuple(
            Rank(
                rank=rank,
                local_rank=rank,
                world_size=2,
                host="node",
                pid=100 + rank,
                exit=Exit(code=0),
                trained=True,
                steps=20,
                process_group="gloo",
            )
            for rank in (0, 1)
        ),
        order=(
            Applied(layer="sharding", event="init_process_group", at="examples/finetune.py:40"),
            Applied(layer="compile", event="Module.compile", module="LlamaDecoderLayer", at=LINE, detail={"count": 12}),
            Applied(layer="sharding", event="fully_shard", module="LlamaDecoderLayer", at="examples/finetune.py:62"),
            Applied(layer="trainer", event="optimizer", module="AdamW", at="examples/finetune.py:66"),
        ),
        requested={"attention": {"attn_implementation": "sdpa"}, "sharding": {"strategy": "FSDP2"}},
        actual=Actual(
            compile=Compile(
                fraction=0.0,
                blocks=Blocks(total=12, compiled=0, names=("LlamaDecoderLayer",)),
                graphs=9,
                recompiles=(
                    Recompile(
                        reason="cache.layers[3].is_initialized == False",
                        at="examples/finetune.py:70",
                        count=17,
                        function="forward (modeling_llama.py:300)",
                    ),
                ),
                breaks=(GraphBreak(reason="Logger not supported", at="examples/finetune.py:71", kind="Unsupported"),),
                limits=(LimitHit(function="forward (modeling_llama.py:300)", limit="recompile_limit"),),
                frames=9,
                seconds=38.4,
                root_eager=True,
                entries=("LlamaDecoderLayer",),
            ),
            attention=Attention(
                requested="sdpa",
                kernels=(Kernel(name="sdpa-flash-cpu", calls=12, share=1.0, op="aten::_scaled_dot_product_flash"),),
                fused_fraction=1.0,
            ),
            sharding=Sharding(strategy="FSDP2", fraction=1.0, units=13, replicas=1),
            precision=Precision(matmul={"float32": 1.0}, parameters={"float32": 1.0}, reduce_dtype="float32"),
            memory=Memory(
                peak_bytes=1_260_000_000, source="resident set", per_rank={"0": 1_260_000_000, "1": 1_250_000_000}
            ),
            training=Training(parameters=111, trainable=111, optimizers=("AdamW",), accumulation=1, observed=True),
        ),
        steps=Steps(
            count=20,
            seconds=(6.1, 0.52, 5.3, *(0.41 + 0.01 * step for step in range(17))),
            losses=(8.6, None, *(8.3 - 0.2 * step for step in range(18))),
        ),
        samples=(Sample(step=9, seconds=0.44, sequence_length=96, blocks_compiled=0, blocks_total=12, fraction=0.0),),
        notes=(Note(what="gradient norms were observed for the first 3 steps only", ranks=(0, 1)),),
        findings=(CACHE,),
    )


@pytest.fixture
def hostile_record(demo_record):
    """The same with markup and terminal sequences wherever text of the user's process can stand."""
    attack = "<script>alert(1)</script>[bold]\x1b[31mred\x1b]0;title\x07\x9b2J\n\u202e{{ 7 * 7 }}"
    finding = msgspec.structs.replace(
        CACHE,
        message=attack,
        cause=attack,
        evidence=(Evidence(what=attack, value=attack, at=f"{attack}.py:3"),),
        remedies=(Remedy(id=attack, kind="code", automatic=True, how=attack),),
        sources=(attack, "javascript:alert(1)"),
    )
    return msgspec.structs.replace(
        demo_record,
        command=("python", attack),
        exit=Exit(code=1, reason=attack),
        environment={"torch": attack},
        ranks=(Rank(rank=0, error=attack, host=attack, process_group=attack),),
        order=(Applied(layer="compile", event=attack, module=attack, at=attack),),
        requested={"compile": {attack: attack}},
        actual=Actual(
            compile=Compile(
                frames=1,
                fraction=0.5,
                recompiles=(Recompile(reason=attack, at=attack, function=attack),),
                breaks=(GraphBreak(reason=attack, at=attack, kind=attack),),
            ),
            attention=Attention(kernels=(Kernel(name=attack, calls=1, share=1.0, op=attack),)),
            sharding=Sharding(strategy=attack),
            memory=Memory(peak_bytes=1, source=attack, per_rank={attack: 1}),
        ),
        notes=(Note(what=attack),),
        findings=(finding,),
    )
