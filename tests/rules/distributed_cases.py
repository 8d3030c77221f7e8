"""Sharding and launcher."""

from healthy_record import HEALTHY, event, failed, merged
from rule_case import negative, positive

REDUCTION = "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one."
DDP = {"sharding": {"strategy": "DDP", "fraction": 0.0, "units": 0}}
ALONE = [{"rank": rank, "world_size": None, "trained": True, "steps": 9, "process_group": None} for rank in (0, 1)]
ONE = [{"rank": 0, "world_size": None, "trained": True, "steps": 9, "process_group": None}]


def without(*events):
    """The order of the healthy job without these events."""
    return [each for each in HEALTHY["order"] if each["event"] not in events]


def accelerator(kind, **detail):
    return event("trainer", "Accelerator", distributed_type=kind, **detail)


def replicated(*exchanges, steps=3, **changes):
    """DDP of 1000 trainable elements, whose sampled steps were like these; the last one repeats."""
    seen = [*exchanges, *[exchanges[-1]] * (steps - len(exchanges))]
    return merged(
        {
            "order": [*without("fully_shard"), event("sharding", "DistributedDataParallel", "Net")],
            "requested": {"sharding": {"strategy": "DDP"}},
            "actual": {
                "sharding": {
                    **DDP["sharding"],
                    "collectives": {},
                    "reducing_backwards": 0,
                    "trainable_elements": 1000,
                    "exchanges": [{"step": 2 + 3 * index, **each} for index, each in enumerate(seen)],
                },
            },
        },
        changes,
    )


def exchange(**what):
    return {"backwards": 1, "reducing_backwards": 0, "elements": 0, "wrapper_forwards": 0, **what}


REDUCED = exchange(reducing_backwards=1, wrapper_forwards=1, elements=1000, collectives={"all_reduce": 1})
UNREDUCED = "sharding/gradients-not-reduced"
CAPTURED = "compile/compiled-autograd-with-fsdp"


def captured(*exchanges, by=event("compile", "compiled_autograd", by=None)):  # noqa: B008
    """The healthy job with compiled autograd, whose sampled steps were like these."""
    return {
        "order+": [by],
        "actual": {
            "sharding": {
                "collectives": {},
                "reducing_backwards": exchanges[-1]["reducing_backwards"],
                "exchanges": [{"step": 2 + 3 * index, **each} for index, each in enumerate(exchanges)],
            }
        },
    }


def sharding(**changes):
    return {"actual": {"sharding": changes}}


def one_process(collectives):
    """Two ranks, of which Accelerate knows one."""
    return {
        "order": [event("trainer", "Accelerator", num_processes=1, distributed_type="NO", device="cpu")],
        "actual": {
            "sharding": {"strategy": "none", "exchanges": [{"step": 2, "backwards": 1, "collectives": collectives}]}
        },
    }


CASES = [
    positive(
        CAPTURED,
        "no gradient is reduced",
        captured(exchange(), exchange()),
        severity="error",
        confidence="likely",
        also=(f"error {UNREDUCED}",),
    ),
    positive(
        CAPTURED,
        "by configuration",
        captured(exchange(), by=event("compile", "dynamo.config", compiled_autograd=True)),
        severity="error",
        confidence="likely",
        also=(f"error {UNREDUCED}",),
    ),
    negative(CAPTURED, "gradients are reduced", captured(exchange(reducing_backwards=1, elements=1000))),
    negative(
        CAPTURED,
        "DDP, which has a reducer for it",
        replicated(exchange(wrapper_forwards=1), order=[event("compile", "compiled_autograd")]),
    ),
    positive(
        "sharding/fsdp-plugin-ignored-on-cpu",
        "two gloo ranks run DDP",
        {"order": [*without("fully_shard"), accelerator("MULTI_CPU")], "actual": DDP},
    ),
    negative(
        "sharding/fsdp-plugin-ignored-on-cpu",
        "sharded by hand beside an Accelerator on CPU",
        {"order+": [accelerator("MULTI_CPU")]},
    ),
    positive(
        "checkpointing/fsdp-redundant-all-gather",
        "reentrant checkpoints around FSDP1 units",
        {
            "requested": {"sharding": {"strategy": "FSDP1"}},
            "actual": {
                "sharding": {"strategy": "FSDP1/FULL_SHARD", "gathers_per_backward": 24.0},
                "checkpointing": {"reentrant": True},
            },
        },
        also=("warning checkpointing/reentrant-variant-used",),
    ),
    negative(
        "checkpointing/fsdp-redundant-all-gather",
        "each unit is gathered once in backward",
        sharding(gathers_per_backward=12.0),
    ),
    positive("sharding/no-wrap-policy-single-unit", "only the root", sharding(units=1)),
    negative(
        "sharding/no-wrap-policy-single-unit",
        "a tiny model of two blocks",
        {"actual": {"sharding": {"units": 1}, "compile": {"blocks": {"total": 2, "compiled": 2}}}},
    ),
    positive(
        "sharding/gradient-sync-every-micro-step",
        "DDP without no_sync",
        {
            "requested": {"sharding": {"strategy": "DDP"}},
            "actual": {
                "training": {"accumulation": 8},
                "sharding": {"strategy": "DDP", "fraction": 0.0, "units": 0, "reducing_backwards": 8},
            },
        },
    ),
    positive(
        "sharding/gradient-sync-every-micro-step",
        "FSDP2, told from the number of reduce-scatters",
        {
            "actual": {
                "training": {"accumulation": 4},
                "sharding": {"collectives": {"reduce_scatter": 52}, "reducing_backwards": None},
            }
        },
    ),
    negative(
        "sharding/gradient-sync-every-micro-step",
        "eight buckets reduced once",
        {
            "actual": {
                "training": {"accumulation": 8},
                "sharding": {"collectives": {"all_reduce": 8}, "reducing_backwards": 1},
            }
        },
    ),
    negative(
        "sharding/gradient-sync-every-micro-step",
        "no accumulation",
        {"actual": {"training": {"accumulation": 1}, "sharding": {"reducing_backwards": 1}}},
    ),
    positive(UNREDUCED, "the wrapper is never called", replicated(exchange()), severity="error"),
    positive(
        UNREDUCED,
        "only the loss is averaged",
        replicated(exchange(elements=1, collectives={"all_reduce": 1})),
        severity="error",
    ),
    positive(UNREDUCED, "one sampled step", replicated(exchange(), steps=1), severity="error", confidence="likely"),
    positive(
        UNREDUCED,
        "every micro-step under no_sync",
        replicated(exchange(backwards=2, wrapper_forwards=2, without_sync=2)),
        severity="error",
        confidence="likely",
    ),
    positive(
        UNREDUCED,
        "sharded, and nothing is exchanged",
        sharding(collectives={}, reducing_backwards=0, exchanges=[exchange(step=2, wrapper_forwards=None)]),
        severity="error",
        confidence="likely",
    ),
    negative(UNREDUCED, "reduced in each step", replicated(REDUCED)),
    negative(UNREDUCED, "one of the steps reduced", replicated(exchange(), REDUCED)),
    negative(
        UNREDUCED,
        "no_sync in two sampled steps, as local SGD does",
        replicated(exchange(wrapper_forwards=1, without_sync=1), steps=2),
    ),
    negative(
        UNREDUCED,
        "three of four micro-steps under no_sync",
        replicated(exchange(backwards=4, wrapper_forwards=4, without_sync=3)),
    ),
    negative(
        UNREDUCED,
        "one of two models reduced by hand",
        replicated(exchange(elements=300, collectives={"all_reduce": 1})),
    ),
    negative(
        UNREDUCED,
        "a communication hook keeps the gradients",
        replicated(exchange(wrapper_forwards=1)),
    ),
    negative(UNREDUCED, "reduced by hand", replicated(exchange(elements=1000, collectives={"all_reduce": 4}))),
    negative(
        UNREDUCED,
        "a torch that does not tell how much was exchanged",
        replicated(exchange(elements=None, collectives={"all_reduce": 1})),
    ),
    negative(
        UNREDUCED,
        "the wrapper is part of a compiled graph that a CUDA graph replays",
        replicated(exchange()) | {"order": [event("compile", "torch.compile", "DistributedDataParallel")]},
    ),
    negative(UNREDUCED, "one rank", replicated(exchange(), launch={"world_size": 1, "requested_world_size": 1})),
    negative(UNREDUCED, "no step was recorded", replicated(exchange(), actual={"sharding": {"exchanges": []}})),
    negative(UNREDUCED, "evaluation only", replicated(exchange(backwards=0))),
    negative(
        UNREDUCED,
        "sharded units gather and reduce",
        sharding(exchanges=[exchange(step=2, collectives={"all_gather": 26, "reduce_scatter": 13}, elements=9000)]),
    ),
    positive(
        "sharding/ddp-unused-parameters",
        "the second step raises",
        {
            "ranks": [failed(REDUCTION)],
            "actual": {"training": {"without_gradient": ["aux.weight"]}},
        },
        severity="error",
        also=("note trainer/parameters-without-gradient",),
    ),
    positive(
        "sharding/ddp-unused-parameters",
        "Lightning puts its own sentence in the place of torch's",
        {
            "order+": [event("sharding", "DistributedDataParallel", "Net", find_unused_parameters=False)],
            "ranks": [
                failed(
                    "RuntimeError: It looks like your LightningModule has parameters that were not used in producing "
                    "the loss returned by training_step."
                )
            ],
        },
        severity="error",
    ),
    positive(
        "sharding/ddp-unused-parameters",
        "the job hangs",
        {
            "order+": [event("sharding", "DistributedDataParallel", "Net", find_unused_parameters=False)],
            "exit": {"code": 124, "reason": "timeout"},
            "actual": {"training": {"without_gradient": ["aux.weight"]}},
        },
        severity="error",
        confidence="likely",
        also=("note trainer/parameters-without-gradient",),
    ),
    negative(
        "sharding/ddp-unused-parameters",
        "find_unused_parameters is on",
        {
            "order+": [event("sharding", "DistributedDataParallel", "Net", find_unused_parameters=True)],
            "actual": {"training": {"without_gradient": ["aux.weight"]}},
        },
        instead=("note trainer/parameters-without-gradient",),
    ),
    positive(
        "sharding/requested-and-not-applied",
        "the sharded object is not the one that trains",
        {"order": without("fully_shard"), "actual": DDP},
    ),
    negative(
        "sharding/requested-and-not-applied",
        "one process has nothing to split with",
        {"launch": {"requested_world_size": 1, "world_size": 1}, "ranks": ONE, "actual": DDP},
    ),
    negative(
        "sharding/requested-and-not-applied",
        "replication is what was asked for",
        {"requested": {"sharding": {"strategy": "DDP"}}, "actual": DDP},
    ),
    positive(
        "launcher/cpu-flag-runs-single-process",
        "accelerate launch --cpu --num_processes 2",
        {
            "command": ["accelerate", "launch", "--cpu", "--num_processes", "2", "train.py"],
            "launch": {"requested_world_size": 2, "world_size": 1, "launchers": ["accelerate launch"]},
            "ranks": ONE,
            "requested": {"sharding": {"strategy": None}},
        },
    ),
    negative(
        "launcher/cpu-flag-runs-single-process",
        "torchrun starts both",
        {"command": ["torchrun", "--nproc-per-node", "2", "train.py"]},
    ),
    negative(
        "launcher/cpu-flag-runs-single-process",
        "one process was asked for",
        {
            "command": ["accelerate", "launch", "--cpu", "train.py"],
            "launch": {"requested_world_size": 1, "world_size": 1, "launchers": ["accelerate launch"]},
            "ranks": ONE,
        },
    ),
    positive("launcher/world-size-differs", "each trains alone", {"ranks": ALONE}),
    positive(
        "launcher/world-size-differs",
        "the script reads no rank",
        {"launch": {"requested_world_size": 4, "world_size": 1}, "ranks": ONE},
        confidence="likely",
    ),
    positive("launcher/accelerate-ranks-alone", "nothing exchanged", one_process({}), severity="error"),
    negative("launcher/accelerate-ranks-alone", "the script averages gradients", one_process({"all_reduce": 4})),
    negative(
        "launcher/world-size-differs",
        "ranks of another host do not report here",
        {"launch": {"requested_world_size": 4}, "ranks": [{**each, "world_size": 4} for each in HEALTHY["ranks"]]},
    ),
    negative(
        "launcher/world-size-differs",
        "a rank crashed before its first step",
        {"launch": {"world_size": 1}, "exit": {"code": 1}, "ranks": [HEALTHY["ranks"][0], failed("ValueError: x", 1)]},
    ),
]
