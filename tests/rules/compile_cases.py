"""Compile beside recompiles: graph breaks, what was never compiled, and checkpoints of compiled modules."""

from healthy_record import event, failed, graph_break
from rule_case import Case, negative, positive

EAGER = {"fraction": 0.0, "blocks": {"total": 12, "compiled": 0}}
UNSEEN = {**EAGER, "frames": 0, "graphs": 0, "recompiles": [], "breaks": [], "checkpoints_in_graph": 0}
BUILTIN = (
    "Dynamo does not know how to trace the builtin `{}.` This function is either a Python builtin "
    "(e.g. _warnings.warn) or a third-party C/C++ Python extension (perhaps created with pybind)."
)
PYBIND_3 = "flash_attn_2_cuda.pybind11_detail_function_record_v1_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1.fwd"
SKIPPED = "Attempted to call function marked as skipped"
ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
HOOKS = "site-packages/accelerate/hooks.py:49"
LOGGING = "site-packages/lightning/pytorch/core/module.py:512"


def compile(**changes):
    return {"actual": {"compile": changes}}


def broken(*breaks, **changes):
    return compile(breaks=list(breaks), **changes)


def whole(blocks=12, **detail):
    return event("compile", "torch.compile", "Llama", target="module", whole_model=True, blocks_inside=blocks, **detail)


def in_place(module, **detail):
    return event("compile", "Module.compile", module, target="module", **detail)


def head(**detail):
    return event("compile", "torch.compile", "Head", target="module", whole_model=False, blocks_inside=0, **detail)


CASES = [
    positive(
        "compile/data-dependent-branch-graph-break",
        "in every block",
        broken(graph_break("Data-dependent branching", kind="gb0170"), regions_per_step=24),
    ),
    negative("compile/data-dependent-branch-graph-break", "no break", {}),
    positive(
        "compile/scalar-extraction-graph-break",
        "item() in every block",
        broken(graph_break(ITEM, kind="gb0124"), regions_per_step=24),
    ),
    positive(
        "compile/scalar-extraction-graph-break",
        "one tolist() between two graphs costs little, also where embeddings are eager by design",
        broken(graph_break("Data dependent operator", explanation="aten._local_scalar_dense.default"), fraction=0.5),
        severity="note",
    ),
    positive(
        "compile/scalar-extraction-graph-break",
        "an operator whose size is data",
        broken(
            graph_break("Dynamic shape operator", explanation="Operator `aten.nonzero.default`'s output ..."),
            blocks={"total": 12, "compiled": 4},
        ),
        confidence="likely",
    ),
    negative("compile/scalar-extraction-graph-break", "captured: no break", broken()),
    Case(
        "compile/fullgraph-does-not-prove-no-breaks",
        "checked with fullgraph=True, run without it",
        {"order+": [head(fullgraph=True), head(fullgraph=False)]} | broken(graph_break(ITEM), regions_per_step=24),
        ("warning compile/scalar-extraction-graph-break", "note compile/fullgraph-does-not-prove-no-breaks"),
    ),
    negative(
        "compile/fullgraph-does-not-prove-no-breaks",
        "the strict compile is of another class",
        {"order+": [in_place("Rotary", fullgraph=True), head(fullgraph=False)]}
        | broken(graph_break(ITEM), regions_per_step=24),
        instead=("warning compile/scalar-extraction-graph-break",),
    ),
    negative(
        "compile/fullgraph-does-not-prove-no-breaks",
        "the break is of a kind that fullgraph refuses",
        {"order+": [head(fullgraph=True), head(fullgraph=False)]}
        | broken(graph_break("Call to `torch._dynamo.graph_break()`"), regions_per_step=24),
    ),
    positive(
        "compile/pybind-kernel-graph-break",
        "flash-attn before 2.7",
        broken(graph_break(SKIPPED, explanation=BUILTIN.format("flash_attn_2_cuda.varlen_fwd")), regions_per_step=24),
    ),
    positive(
        "compile/pybind-kernel-graph-break",
        "a function as pybind11 3 names it",
        broken(graph_break(SKIPPED, explanation=BUILTIN.format(PYBIND_3)), regions_per_step=24),
    ),
    positive(
        "compile/pybind-kernel-graph-break",
        "spelling of torch 2.5",
        broken(
            graph_break("Graph break due to unsupported builtin sageattention._qattn.PyCapsule.qk_int8."),
            regions_per_step=24,
        ),
    ),
    negative(
        "compile/pybind-kernel-graph-break",
        "a builtin of Python itself gives the same text",
        broken(graph_break(SKIPPED, explanation=BUILTIN.format("time.time"))),
        instead=("note compile/untraceable-python-in-model-code",),
    ),
    positive(
        "compile/untraceable-python-in-model-code",
        "flash-attn over documents, given their boundaries for queries and keys",
        broken(graph_break("autograd.Function.apply: duplicate tensor input"), regions_per_step=24),
    ),
    positive(
        "compile/device-dispatch-hooks-graph-break",
        "a model with a device_map",
        broken(graph_break(SKIPPED, explanation="the function `disable` ...", frame=HOOKS, count=24)),
    ),
    negative("compile/device-dispatch-hooks-graph-break", "hooks removed", broken()),
    positive(
        "compile/trainer-internals-traced",
        "self.log in a compiled training_step",
        broken(graph_break("Failed to trace builtin operator", frame=LOGGING, count=3)),
    ),
    positive(
        "compile/trainer-internals-traced",
        "and it crashes",
        broken(failures=[f"InternalTorchDynamoError: ... {LOGGING}"])
        | {"ranks": [failed("torch._dynamo.exc.InternalTorchDynamoError: AttributeError")]},
        severity="error",
    ),
    positive(
        "compile/trainer-internals-traced",
        "it crashes, and only the error quotes the trainer's code",
        {
            "ranks": [
                failed(
                    "torch._dynamo.exc.InternalTorchDynamoError: AttributeError: 'method' object has no attribute "
                    '\'__dict__\'\n\nfrom user code:\n   File "train.py", line 26, in training_step\n    self.log("a", '
                    f'loss)\n  File "{LOGGING.partition(":")[0]}", line 514, in log\n\nSet TORCHDYNAMO_VERBOSE=1'
                )
            ]
        },
        severity="error",
    ),
    positive(
        "compile/trainer-internals-traced",
        "the Trainer's training step was compiled",
        broken(graph_break("Unsupported Tensor.backward() call", frame="accelerate/accelerator.py:2861")),
    ),
    negative("compile/trainer-internals-traced", "the network inside was compiled", broken()),
    negative(
        "compile/trainer-internals-traced",
        "another crash of Dynamo under a trainer",
        {
            "ranks": [
                failed(
                    "torch._dynamo.exc.TorchRuntimeError: mat1 and mat2 cannot be multiplied\n\nfrom user code:\n"
                    f'   File "model.py", line 26, in forward\n\nSet TORCHDYNAMO_VERBOSE=1\nat {LOGGING}'
                )
            ]
        },
    ),
    positive(
        "compile/untraceable-python-in-model-code",
        "print in each block",
        broken(
            graph_break("Failed to trace builtin operator", explanation="builtin operator `print` ..."),
            regions_per_step=24,
        ),
    ),
    positive(
        "compile/recompile-limit-reached",
        "a break beside it, which does not make the code eager",
        broken(
            graph_break("logging.Logger method not supported"),
            limits=[{"function": "forward (model.py:3)", "limit": "recompile_limit"}],
            blocks={"compiled": 6},
            fraction=0.5,
        ),
        also=("note compile/untraceable-python-in-model-code",),
    ),
    positive(
        "compile/untraceable-python-in-model-code",
        "at three places",
        broken(*(graph_break("Failed to trace builtin operator", frame=f"model.py:{line}") for line in (3, 7, 9))),
    ),
    positive(
        "compile/untraceable-python-in-model-code",
        "at one place, which Dynamo met again while it tried the frames around it",
        broken(
            graph_break("logging.Logger method not supported", frame="transformers/modeling_utils.py:4778", count=4)
        ),
        severity="note",
    ),
    negative(
        "compile/untraceable-python-in-model-code",
        "breaks that someone put there, and torch's own",
        broken(
            graph_break("Skip calling `torch.compiler.disable()`d function", count=9),
            graph_break("Call to `torch._dynamo.graph_break()`", frame="lib/torch/optim/optimizer.py:79", count=9),
            graph_break("Attempted to call function marked as skipped", frame="torch/nn/parallel/distributed.py:1694"),
            graph_break(
                "Attempted to call function marked as skipped\nmodule: torch.nn.parallel.distributed, qualname: "
                "DistributedDataParallel._inside_ddp_forward",
                frame="lib/python3.11/contextlib.py:105",
            ),
        ),
    ),
    negative(
        "compile/untraceable-python-in-model-code",
        "a more specific class",
        broken(graph_break(ITEM)),
        instead=("note compile/scalar-extraction-graph-break",),
    ),
    positive(
        "compile/fsdp1-flattened-parameters",
        "breaks at each unit",
        broken(graph_break("FSDP with use_orig_params=False", count=12)),
    ),
    positive(
        "compile/fsdp1-flattened-parameters",
        "assertion of torch 2.0",
        {"ranks": [failed("AssertionError: Dynamo only supports FSDP with use_orig_params=True")]},
        severity="error",
    ),
    negative(
        "compile/fsdp1-flattened-parameters",
        "blocks inside compiled one by one",
        {"order+": [event("sharding", "FullyShardedDataParallel", "Llama", use_orig_params=False)]}
        | compile(fraction=0.5),
    ),
    positive(
        "compile/fsdp1-flattened-parameters",
        "blocks run eager, the break is not in the record",
        {"order+": [event("sharding", "FullyShardedDataParallel", "Llama", use_orig_params=False)]}
        | compile(fraction=0.3, blocks={"total": 12, "compiled": 4}),
        confidence="likely",
    ),
    positive(
        "compile/fsdp2-hooks-inside-compiled-module",
        "embedding and head stay eager",
        {"order+": [whole()]} | compile(root_eager=True, fraction=0.6),
    ),
    negative("compile/fsdp2-hooks-inside-compiled-module", "blocks compiled one by one: root is eager by design", {}),
    negative(
        "compile/fsdp2-hooks-inside-compiled-module",
        "whole model without FSDP2",
        {"order+": [whole()]} | compile(root_eager=False),
    ),
    positive(
        "compile/regional-compile-not-applied",
        "a hook on the root",
        {"order+": [event("compile", "compile_regions", "Llama", compiled=12)]} | compile(**UNSEEN),
    ),
    positive(
        "compile/regional-compile-not-applied",
        "the plugin asked for it",
        {"requested": {"compile": {"regional": True}}} | compile(**UNSEEN),
        confidence="likely",
        also=("warning trainer/compile-flag-without-effect",),
    ),
    negative(
        "compile/regional-compile-not-applied",
        "slow, and Dynamo did see frames",
        {"order+": [event("compile", "compile_regions", "Llama", compiled=12)]} | compile(frames=12),
    ),
    positive(
        "compile/in-place-compile-of-builtin-module",
        "nn.Sequential",
        {"order": [in_place("Sequential", builtin=True)]} | compile(**UNSEEN, eager_modules={"Sequential": 1}),
    ),
    negative(
        "compile/in-place-compile-of-builtin-module",
        "a subclass with a forward of its own",
        {"order": [in_place("MyBlock", builtin=False)]},
    ),
    negative(
        "compile/in-place-compile-of-builtin-module",
        "a wrapper around a stock module",
        {"order": [event("compile", "torch.compile", "Sequential", target="module", builtin=True)]},
    ),
    positive(
        "compile/compiled-state-lost-on-pickle",
        "compiled before torch.load",
        {"order+": [in_place("Llama")]} | compile(**EAGER, holders=0),
    ),
    negative(
        "compile/compiled-state-lost-on-pickle",
        "the wrapper of torch.compile keeps its state",
        {"order": [event("compile", "torch.compile", "Llama", target="module")]} | compile(holders=0),
    ),
    positive(
        "compile/whole-model-cold-start",
        "twelve blocks unrolled",
        {"order": [whole()], "duration_s": 45.0} | compile(seconds=28.0, root_eager=False),
        severity="note",
    ),
    negative(
        "compile/whole-model-cold-start",
        "a small share of a long run",
        {"order": [whole()], "duration_s": 3600.0} | compile(seconds=28.0, root_eager=False),
    ),
    positive(
        "compile/orig-mod-prefix-in-checkpoint",
        "loaded without strict",
        {
            "order+": [
                event(
                    "trainer",
                    "load_state_dict",
                    "Llama",
                    missing=111,
                    unexpected=111,
                    missing_names=["embed.weight"],
                    unexpected_names=["_orig_mod.embed.weight"],
                )
            ]
        },
        severity="error",
    ),
    positive(
        "compile/orig-mod-prefix-in-checkpoint",
        "the program kept the keys that the model has, which were none",
        {"order+": [head(), event("trainer", "load_state_dict", "Head", given=0, missing=111, strict=False)]},
        severity="error",
        confidence="likely",
    ),
    positive(
        "compile/orig-mod-prefix-in-checkpoint",
        "the program put what fits, which was nothing, into the model's own state_dict",
        {
            "order+": [
                head(),
                event("trainer", "load_state_dict", "Head", given=96, prefixed_file=True, untouched={"Head": 1}),
            ]
        },
        severity="error",
        confidence="likely",
    ),
    positive(
        "compile/orig-mod-prefix-in-checkpoint",
        "blocks compiled one by one, and only the rest of the model was filled",
        {
            "order+": [
                event("compile", "torch.compile", "Block", target="module"),
                event(
                    "trainer", "load_state_dict", "Net", given=4, missing=36, prefixed_file=True, untouched={"Block": 3}
                ),
            ]
        },
        severity="error",
        confidence="likely",
    ),
    negative(
        "compile/orig-mod-prefix-in-checkpoint",
        "the compiled head is left out on purpose",
        {
            "order+": [
                head(),
                event("trainer", "load_state_dict", "Net", given=96, prefixed_file=True, untouched={"Head": 1}),
            ]
        },
    ),
    negative(
        "compile/orig-mod-prefix-in-checkpoint",
        "the prefix was taken off before the load",
        {
            "order+": [
                head(),
                event("trainer", "load_state_dict", "Head", given=96, prefixed_file=True, untouched={}),
            ]
        },
    ),
    negative(
        "compile/orig-mod-prefix-in-checkpoint",
        "some keys are left out on purpose",
        {"order+": [head(), event("trainer", "load_state_dict", "Head", given=96, missing=15, strict=False)]},
    ),
    negative(
        "compile/orig-mod-prefix-in-checkpoint",
        "nothing was loaded into a model that no wrapper holds",
        {"order+": [in_place("Llama"), event("trainer", "load_state_dict", "Llama", given=0, missing=111)]},
    ),
    negative(
        "compile/orig-mod-prefix-in-checkpoint",
        "the name in a traceback alone",
        {"ranks": [failed("ValueError: bad batch\n  in self._orig_mod(*args)")]},
    ),
    positive(
        "compile/requested-and-not-applied",
        "frames seen, nothing runs compiled",
        compile(**EAGER, frames=12, graphs=0),
    ),
    positive(
        "compile/requested-and-not-applied",
        "what torch.compile returned is dropped",
        {
            "order": [event("compile", "torch.compile", "Net", target="module")],
            **compile(**EAGER, frames=0, graphs=0, holders=0),
        },
    ),
    positive(
        "compile/requested-and-not-applied",
        "another model, which nobody compiled, trains after the compiled one",
        {
            **compile(**EAGER, holders=0),
            "order+": [event("compile", "torch.compile", "Block", target="module")],
            "samples": [{"step": 3, "fraction": 0.98}, {"step": 9, "fraction": 0.0}],
        },
        severity="note",
    ),
    negative(
        "compile/requested-and-not-applied",
        "this run forces compile off",
        compile(**EAGER) | {"variant": {"layers": {"compile": "off"}}},
    ),
    negative(
        "compile/requested-and-not-applied",
        "only a loss function was meant to be compiled",
        {
            "order": [event("compile", "torch.compile", "loss", target="function")],
            "requested": {"compile": {"module": "loss"}},
        }
        | compile(fraction=0.0, blocks={"total": 12, "compiled": 0}),
        instead=("note trainer/compile-flag-without-effect",),
    ),
    negative(
        "compile/requested-and-not-applied",
        "a compiled optimizer step",
        {"order": [event("compile", "torch.compile", "AdamW.step", target="method")]} | compile(**EAGER),
    ),
    positive(
        "trainer/evaluation-runs-uncompiled-model",
        "the module beneath the wrapper",
        compile(evaluated_eager=12),
        severity="note",
        confidence="likely",
    ),
    negative("trainer/evaluation-runs-uncompiled-model", "evaluated compiled, too", compile(evaluated_eager=0)),
    positive(
        "checkpointing/memory-budget-recomputes-too-much",
        "a budget of a half",
        {"order+": [event("checkpointing", "functorch.config", activation_memory_budget=0.5)]},
        severity="note",
        confidence="possible",
    ),
    negative(
        "checkpointing/memory-budget-recomputes-too-much",
        "nothing is compiled, so that it does nothing",
        {
            "order": [event("checkpointing", "functorch.config", activation_memory_budget=0.5)],
            "requested": {"compile": {}},
        },
    ),
]
