"""Trainer and adapter."""

from healthy_record import HEALTHY, event, failed
from rule_case import negative, positive

NAMES = [f"layers.{i}.q_proj.weight" for i in range(4)]
LORA = [f"layers.{i}.q_proj.lora_B.default.weight" for i in range(4)]
NO_GRAPH = "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn"
UNCOMPILED = {"fraction": 0.0, "blocks": {"compiled": 0}, "frames": 0, "graphs": 0, "recompiles": [], "breaks": []}
WITHOUT_COMPILE = [each for each in HEALTHY["order"] if each["layer"] != "compile"]


def training(**changes):
    return {"actual": {"training": changes}}


def adapter(**changes):
    return {"actual": {"adapter": changes}}


def wrapped(**detail):
    return event("sharding", "FullyShardedDataParallel", "Llama", **detail)


CASES = [
    positive(
        "trainer/optimizer-holds-replaced-parameters",
        "made before fully_shard",
        {"order+": [event("sharding", "fully_shard", "Llama")]}
        | training(in_no_optimizer=NAMES, in_no_optimizer_count=96, not_of_model=96, trainable=96),
        severity="error",
        also=("warning trainer/parameters-missing-from-optimizer",),
    ),
    negative(
        "trainer/optimizer-holds-replaced-parameters",
        "one forgotten parameter is another class",
        training(in_no_optimizer=NAMES[:1]),
        instead=("warning trainer/parameters-missing-from-optimizer",),
    ),
    negative(
        "trainer/optimizer-holds-replaced-parameters",
        "frozen parameters are in no optimizer either",
        training(parameters=211, trainable=96),
    ),
    positive(
        "trainer/parameters-missing-from-optimizer",
        "a head added after the optimizer",
        training(in_no_optimizer=["head.weight", "head.bias"]),
    ),
    negative(
        "trainer/parameters-missing-from-optimizer",
        "a reference model runs forward only",
        training(in_no_optimizer=NAMES, without_gradient=NAMES),
    ),
    positive(
        "trainer/parameters-without-gradient",
        "most of the model is cut off",
        training(without_gradient=NAMES, without_gradient_count=60),
    ),
    positive(
        "trainer/parameters-without-gradient",
        "one pooler that nobody uses",
        training(without_gradient=["pooler.weight"]),
        severity="note",
    ),
    negative("trainer/parameters-without-gradient", "all have one", training(without_gradient=[])),
    negative(
        "trainer/parameters-without-gradient",
        "tensors that an optimizer holds and no model owns",
        training(without_gradient=["(not a parameter of the model)"] * 3),
    ),
    positive(
        "trainer/compile-flag-without-effect",
        "torch_compile on, only a loss function compiled",
        {
            "order": [*WITHOUT_COMPILE, event("compile", "torch.compile", "entropy_from_logits", target="function")],
            "requested": {"compile": {"use_torch_compile": True}},
            "actual": {"compile": UNCOMPILED | {"frames": 1, "graphs": 1}},
        },
    ),
    positive(
        "trainer/compile-flag-without-effect",
        "an option of the script's own, which compiles a helper",
        {
            "command": ["torchrun", "train.py", "--use-torch-compile"],
            "order": [*WITHOUT_COMPILE, event("compile", "torch.compile", "logprobs", target="function", by=None)],
            "requested": {"compile": {"module": "logprobs"}},
            "actual": {"compile": UNCOMPILED | {"frames": 1, "graphs": 1}},
        },
        confidence="likely",
    ),
    positive(
        "trainer/compile-flag-without-effect",
        "nothing but a helper is compiled, which may be meant",
        {
            "order": [*WITHOUT_COMPILE, event("compile", "torch.compile", "logprobs", target="function", by=None)],
            "requested": {"compile": {"module": "logprobs"}},
            "actual": {"compile": UNCOMPILED | {"frames": 1, "graphs": 1}},
        },
        severity="note",
        confidence="possible",
    ),
    positive(
        "trainer/compile-flag-without-effect",
        "a switch out of a configuration file, under which a helper is compiled",
        {
            "order": [
                *WITHOUT_COMPILE,
                event("compile", "torch.compile", "logprobs", target="function", by=None, switch="cfg.model.compile"),
            ],
            "requested": {"compile": {"module": "logprobs"}},
            "actual": {"compile": UNCOMPILED | {"frames": 1, "graphs": 1}},
        },
        confidence="likely",
    ),
    *(
        positive(
            "trainer/compile-flag-without-effect",
            f"an override of the configuration, {option}",
            {
                "command": ["python", "train.py", "data.batch=4", option],
                "order": [*WITHOUT_COMPILE, event("compile", "torch.compile", "huber", target="function", by=None)],
                "requested": {"compile": {"module": "huber"}},
                "actual": {"compile": UNCOMPILED | {"frames": 1, "graphs": 1}},
            },
            confidence="likely",
        )
        for option in ("model.compile=true", "+trainer.use_torch_compile=True", "--compile.enable")
    ),
    *(
        negative(
            "trainer/compile-flag-without-effect",
            f"an override that does not ask for it, {option}",
            {
                "command": ["python", "train.py", option],
                "order": WITHOUT_COMPILE,
                "requested": {"compile": {}},
                "actual": {"compile": UNCOMPILED},
            },
        )
        for option in (
            "model.compile=false",
            "model.no_compile=true",
            "loss.compile=true",
            "--compile.enable=false",
            "compile.backend=eager",
        )
    ),
    negative(
        "trainer/compile-flag-without-effect",
        "an option that switches compilation off",
        {
            "command": ["python", "train.py", "--no-compile", "--torch-compile=false"],
            "order": WITHOUT_COMPILE,
            "requested": {"compile": {}},
            "actual": {"compile": UNCOMPILED},
        },
    ),
    negative(
        "trainer/compile-flag-without-effect",
        "the flag compiles the model",
        {"requested": {"compile": {"torch_compile": True}}},
    ),
    negative(
        "trainer/compile-flag-without-effect",
        "the launcher says no",
        {
            "order": WITHOUT_COMPILE,
            "requested": {"compile": {"dynamo_backend": "no"}},
            "actual": {"compile": UNCOMPILED},
        },
    ),
    positive(
        "trainer/fsdp-plugin-argument-overwritten",
        "accelerate 0.33",
        {
            "order+": [wrapped(use_orig_params=False)],
            "requested": {"sharding": {"use_orig_params": True}},
            "environment": {"packages": {"accelerate": "0.33.0"}},
        },
    ),
    negative(
        "trainer/fsdp-plugin-argument-overwritten",
        "the argument arrived",
        {
            "order+": [wrapped(use_orig_params=True)],
            "requested": {"sharding": {"use_orig_params": True}},
            "environment": {"packages": {"accelerate": "0.33.0"}},
        },
    ),
    positive(
        "trainer/tied-weights-broken-by-materialization",
        "loaded without strict",
        {
            "order+": [
                event("trainer", "load_state_dict", "Llama", missing=1, unexpected=0, missing_names=["lm_head.weight"])
            ]
        }
        | training(tied=False),
        severity="error",
    ),
    positive("trainer/tied-weights-broken-by-materialization", "never loaded", training(tied=False)),
    positive(
        "trainer/tied-weights-broken-by-materialization",
        "a model without a configuration, seen coming apart",
        {
            "order+": [event("precision", "to", "LM", call="to_empty", come_apart=["embed.weight, head.weight"])],
            "actual": {"training": {"tied_requested": None, "tied": None, "shared": 0}},
        },
    ),
    negative(
        "trainer/tied-weights-broken-by-materialization",
        "tied again afterwards",
        {
            "order+": [event("precision", "to", "LM", call="to_empty", come_apart=["embed.weight, head.weight"])],
            "actual": {"training": {"tied_requested": None, "tied": None, "shared": 1}},
        },
    ),
    negative(
        "trainer/tied-weights-broken-by-materialization",
        "an untied model",
        training(tied_requested=False, tied=False),
    ),
    negative(
        "trainer/tied-weights-broken-by-materialization",
        "FSDP1 shows views in place of parameters",
        {"actual": {"training": {"tied": False}, "sharding": {"strategy": "FSDP1/FULL_SHARD"}}},
    ),
    positive(
        "adapter/adapters-not-trained",
        "all frozen",
        {"actual": {"adapter": {"adapter_trainable": 0, "adapter_changed": 0}, "training": {"trainable": 2}}},
    ),
    positive(
        "adapter/adapters-not-trained",
        "attached after the optimizer was made",
        training(in_no_optimizer=LORA),
        also=("warning trainer/parameters-missing-from-optimizer",),
    ),
    positive("adapter/adapters-not-trained", "none changes", adapter(adapter_changed=0), confidence="likely"),
    positive(
        "adapter/adapters-not-trained",
        "half of them frozen, perhaps on purpose",
        adapter(adapter_trainable=48),
        severity="note",
        confidence="possible",
    ),
    positive(
        "adapter/adapters-not-trained",
        "a second one was added and never chosen",
        {"order+": [event("adapter", "add_adapter", adapter="second")]} | adapter(adapter_trainable=48),
        severity="note",
        confidence="possible",
    ),
    negative(
        "adapter/adapters-not-trained",
        "set_adapter chose the second of two",
        {
            "order+": [
                event("adapter", "add_adapter", adapter="second"),
                event("adapter", "set_adapter", adapter="second"),
            ]
        }
        | adapter(adapter_trainable=48),
    ),
    negative(
        "adapter/adapters-not-trained",
        "the second was loaded as a frozen reference",
        {"order+": [event("adapter", "load_adapter", adapter="reference", is_trainable=False)]}
        | adapter(adapter_trainable=48),
    ),
    negative("adapter/adapters-not-trained", "lora_A does not change in the first step", adapter(adapter_changed=48)),
    negative("adapter/adapters-not-trained", "no adapters", adapter(adapter_parameters=0, adapter_trainable=0)),
    positive(
        "adapter/reentrant-checkpoint-input-without-grad",
        "backward raises",
        {"ranks": [failed(NO_GRAPH)], "actual": {"checkpointing": {"reentrant": True}}},
        severity="error",
        also=("warning checkpointing/reentrant-variant-used",),
    ),
    positive(
        "adapter/reentrant-checkpoint-input-without-grad",
        "adapters inside get no gradient",
        {"actual": {"checkpointing": {"reentrant": True}, "training": {"without_gradient": LORA}}},
        also=(
            "warning checkpointing/reentrant-variant-used",
            "warning adapter/adapters-not-trained",
            "note trainer/parameters-without-gradient",
        ),
    ),
    positive(
        "adapter/reentrant-checkpoint-input-without-grad",
        "vectors of (IA)3 inside get no gradient",
        {
            "actual": {
                "checkpointing": {"reentrant": True},
                "training": {"without_gradient": ["base_model.model.stages.0.down.ia3_l.default"]},
            }
        },
        also=(
            "warning checkpointing/reentrant-variant-used",
            "warning adapter/adapters-not-trained",
            "note trainer/parameters-without-gradient",
        ),
    ),
    negative(
        "adapter/reentrant-checkpoint-input-without-grad",
        "nothing is trainable at all",
        {
            "ranks": [failed(NO_GRAPH)],
            "steps": {"count": 0},
            "actual": {
                "checkpointing": {"reentrant": True},
                "adapter": {"adapter_trainable": 0, "adapter_changed": None},
                "compile": {"fraction": None},
            },
        },
        instead=("warning checkpointing/reentrant-variant-used",),
    ),
    positive(
        "adapter/kbit-preparation-upcasts-to-fp32",
        "and memory ran out",
        {
            "order+": [event("adapter", "prepare_model_for_kbit_training", "Llama")],
            "ranks": [failed("torch.OutOfMemoryError: CUDA out of memory.")],
            "actual": {"precision": {"parameters": {"uint8": 0.8, "float32": 0.2}}},
        },
        severity="note",
        confidence="likely",
    ),
    positive(
        "adapter/kbit-preparation-upcasts-to-fp32",
        "embeddings and head doubled their memory",
        {"order+": [event("adapter", "prepare_model_for_kbit_training", "Llama", upcast=20_000, total=100_000)]},
        severity="note",
        confidence="likely",
    ),
    negative(
        "adapter/kbit-preparation-upcasts-to-fp32",
        "only the norms, as intended",
        {
            "order+": [event("adapter", "prepare_model_for_kbit_training", "Llama", upcast=200, total=100_000)],
            "actual": {"precision": {"parameters": {"uint8": 0.8, "float32": 0.2}}},
        },
    ),
]
