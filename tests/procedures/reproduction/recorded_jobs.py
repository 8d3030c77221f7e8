"""Jobs that failed, as their records tell of them, and candidates judged by what their text says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trueup.procedures.reproduction.candidate import NAME, Candidate
from trueup.schema.bisection import Bisection, Outcome, Signature
from trueup.schema.layer import Layer
from trueup.schema.record import Actual, Adapter, Applied, Blocks, Compile, Exit, GraphBreak, Launch, Record, Training

ERROR = Signature(
    kind="exception", text="ValueError: these two do not go together", exception="ValueError", message="these two"
)


def applied(layer: Layer, event: str, module: str | None = None, **detail: Any) -> Applied:
    return Applied(layer=layer, event=event, module=module, detail=detail)


HUGGING_FACE = applied("attention", "config", "LlamaForCausalLM", attn_implementation="sdpa")
WHOLE = applied("compile", "Module.compile", "Net", target="module", whole_model=True, backend="aot_eager")
EACH = applied("compile", "torch.compile", "Block", target="module", whole_model=False, backend="inductor")
SHARD_BLOCK = applied("sharding", "fully_shard", "Block", param_dtype="bfloat16")
SHARD_ROOT = applied("sharding", "fully_shard", "Net")
FSDP1 = applied("sharding", "FullyShardedDataParallel", "Net", use_orig_params=True, auto_wrap_policy=True)
DDP = applied("sharding", "DistributedDataParallel", "Net", find_unused_parameters=True)
WRAPPER = applied("checkpointing", "checkpoint_wrapper", "Block", reentrant=True)
SWITCH = applied("checkpointing", "gradient_checkpointing_enable", "LlamaForCausalLM", use_reentrant=True)
LORA = applied("adapter", "get_peft_model", "Net", via="get_peft_model", r=4, target_modules=["q_proj", "v_proj"])
AUTOCAST = applied("precision", "autocast", dtype="bfloat16", enabled=True)
BACKWARD = applied("compile", "compiled_autograd")


def job(*order: Applied, ranks: int = 1, breaks: tuple[str, ...] = (), trainable: int = 0) -> Record:
    """The record of a job with a network of blocks."""
    return Record(
        command=("python", "train.py"),
        exit=Exit(code=1),
        environment={"python": "3.11.7", "torch": "2.13.0", "packages": {"torch": "2.13.0", "peft": "0.21"}},
        launch=Launch(world_size=ranks),
        order=order,
        actual=Actual(
            compile=Compile(
                blocks=Blocks(total=4, names=("Block",)),
                breaks=tuple(GraphBreak(reason=reason) for reason in breaks),
            ),
            adapter=Adapter(adapter_trainable=4 if trainable else 0),
            training=Training(models=("Net",), trainable=trainable),
        ),
    )


def bisection(record: Record, *minimal: str, signature: Signature = ERROR) -> Bisection:
    return Bisection(verdict="found", why="", minimal=minimal, one_minimal=True, signature=signature, record=record)


class Judged:
    """Checks that know what a script must have in it to fail; a layer that is left out cures it."""

    def __init__(self, fails: Callable[[Candidate], bool]) -> None:
        self.seen: list[Candidate] = []
        self._fails = fails

    def observed(self, candidate: Candidate) -> tuple[Outcome, str]:
        self.seen.append(candidate)
        off = candidate.forced or candidate.launch[candidate.launch.index(NAME) + 1 :]
        return ("fails", "as asked") if not off and self._fails(candidate) else ("passes", "ended well")

    plain = observed
