"""Cases of rules about memory: what evaluation keeps, what logits take, what each rank loads."""

from __future__ import annotations

from typing import Any

from healthy_record import event, failed
from rule_case import negative, positive

GIB = 2**30
PEAK = {"peak_bytes": 4 * GIB, "per_rank": {"0": 4 * GIB, "1": 4 * GIB}}


def evaluation(kept: int, **detail: Any) -> dict[str, Any]:
    loop = {
        "batches": 40,
        "batch_shape": [8, 512, 128256],
        "dtype": "float32",
        "device": "cuda",
        "eval_accumulation_steps": None,
        "preprocessed": False,
        "finished": True,
        "kept_bytes": kept,
        **detail,
    }
    return {"order+": [event("trainer", "evaluation_loop", "Llama", **loop)], "actual": {"memory": PEAK}}


def logits(size: int, source: str = "cuda allocator") -> dict[str, Any]:
    seen = {
        "positions": 8192,
        "vocabulary": 128256,
        "copies": {"head": "bfloat16", "log_softmax": "float32", "gradient": "float32"},
        "bytes": size,
        "at": "train.py:61",
    }
    return {"actual": {"memory": {**PEAK, "source": source, "logits": seen}}}


def loaded(total: int, *held: int, variables: dict[str, str] | None = None, hosts: int = 1) -> dict[str, Any]:
    ranks = [{"rank": rank, "world_size": len(held), "host": f"host{rank % hosts}"} for rank in range(len(held))]
    memory = {
        "loaded_before_sharding": {str(rank): size for rank, size in enumerate(held)},
        "loaded_total": total,
        "loaded_at": "train.py:20",
    }
    launch = {"requested_world_size": len(held), "world_size": len(held)}
    return {
        "ranks": [{**each, "trained": True, "steps": 40, "process_group": "gloo"} for each in ranks],
        "launch": launch,
        "environment": {"variables": variables or {}},
        "actual": {"memory": memory},
    }


EFFICIENT = {"ACCELERATE_USE_FSDP": "true", "FSDP_CPU_RAM_EFFICIENT_LOADING": "true"}
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB"

CASES = [
    positive("memory/evaluation-predictions-accumulate", "a third of the peak", evaluation(3 * GIB // 2)),
    positive(
        "memory/evaluation-predictions-accumulate",
        "and memory ran out in it",
        {**evaluation(3 * GIB, finished=False), "ranks": [failed(OUT_OF_MEMORY)]},
        severity="error",
    ),
    negative("memory/evaluation-predictions-accumulate", "classes of sentences", evaluation(40 * 2**20)),
    negative("memory/evaluation-predictions-accumulate", "training takes far more", evaluation(GIB // 2)),
    negative("memory/evaluation-predictions-accumulate", "moved after every step", evaluation(3 * GIB, batches=1)),
    positive("memory/full-vocabulary-logits", "most of the peak", logits(3 * GIB)),
    positive("memory/full-vocabulary-logits", "half of it, or nearly", logits(GIB * 17 // 10), severity="note"),
    negative("memory/full-vocabulary-logits", "a part like any other", logits(GIB)),
    negative(
        "memory/full-vocabulary-logits",
        "a small job",
        {"actual": {"memory": {**logits(200 * 2**20)["actual"]["memory"], "peak_bytes": 400 * 2**20}}},
    ),
    positive("memory/full-model-loaded-on-every-rank", "both load it", loaded(GIB, GIB, GIB), severity="note"),
    positive(
        "memory/full-model-loaded-on-every-rank",
        "eight load 14 GB",
        loaded(14 * GIB, *[14 * GIB] * 8),
    ),
    negative("memory/full-model-loaded-on-every-rank", "the first of them only", loaded(GIB, GIB, 0)),
    negative("memory/full-model-loaded-on-every-rank", "a small model", loaded(2**20, 2**20, 2**20)),
    negative("memory/full-model-loaded-on-every-rank", "one on each host", loaded(GIB, GIB, GIB, hosts=2)),
    positive(
        "memory/ram-efficient-loading-materializes-weights",
        "the loader reads them on both",
        loaded(GIB, GIB, GIB, variables=EFFICIENT),
        severity="note",
    ),
    positive(
        "memory/ram-efficient-loading-materializes-weights",
        "a large model",
        loaded(14 * GIB, 14 * GIB, 14 * GIB, variables=EFFICIENT),
    ),
    negative(
        "memory/ram-efficient-loading-materializes-weights",
        "it works",
        loaded(14 * GIB, 14 * GIB, 0, variables=EFFICIENT),
    ),
]
