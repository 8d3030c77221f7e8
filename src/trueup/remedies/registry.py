"""The remedies that trueup can apply, by id."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache

from trueup.remedies.application import Application

APPLICATIONS = (
    Application(remedy="disable-kv-cache", corrects=("attention/packing-leak-mask-or-cache-present",)),
    Application(remedy="leak-free-packing", corrects=("attention/packing-leak-mask-or-cache-present",)),
    Application(remedy="unset-accelerate-dynamic"),
    Application(remedy="raise-recompile-limit"),
    Application(remedy="unspecialize-module-integers"),
    Application(remedy="non-reentrant-checkpoint", corrects=("adapter/reentrant-checkpoint-input-without-grad",)),
    Application(remedy="request-sdpa"),
    Application(remedy="restore-sdpa-switches"),
    Application(remedy="no-output-attentions"),
    Application(remedy="preserve-rng-state", corrects=("checkpointing/rng-state-not-preserved",)),
    Application(remedy="ddp-find-unused-parameters"),
    Application(remedy="ddp-optimizer-off"),
    Application(remedy="dynamic-parameter-shapes"),
    Application(remedy="automatic-dynamic-shapes"),
    Application(remedy="compiled-autograd-off", corrects=("compile/compiled-autograd-with-fsdp",)),
    Application(remedy="autocast-without-cache"),
    Application(remedy="compile-by-wrapper"),
    Application(
        remedy="compile-in-place",
        excludes=("compile-per-block",),
        corrects=("compile/orig-mod-prefix-in-checkpoint",),
    ),
    Application(remedy="compile-per-block"),
    Application(remedy="no-scaler"),
    Application(remedy="fp32-trainable-parameters"),
    Application(remedy="fp32-master-weights", corrects=("precision/bf16-updates-lost",)),
    Application(remedy="unfreeze-adapters", corrects=("adapter/adapters-not-trained",)),
    Application(remedy="cast-attention-input"),
    Application(remedy="full-memory-budget"),
    Application(remedy="wrap-blocks"),
    Application(remedy="wrap-once"),
    Application(remedy="import-torch-first"),
    Application(remedy="fully-shard-on-cpu"),
    Application(
        remedy="optimizer-after-wrapping",
        corrects=("trainer/optimizer-holds-replaced-parameters",),
    ),
    Application(remedy="add-missing-parameters", corrects=("trainer/parameters-missing-from-optimizer",)),
    Application(remedy="free-port", computed={"TRUEUP_FREE_PORT": "free-port"}),
    Application(remedy="rendezvous-endpoint"),
    Application(remedy="unwrap-before-generating"),
    Application(remedy="generate-without-fullgraph"),
    Application(remedy="debug-level-info", variables={"TORCH_DISTRIBUTED_DEBUG": "INFO"}),
    Application(remedy="use-found-compiler", computed={"CXX": "cxx-compiler"}),
    Application(remedy="launch-with-torchrun", corrects=("launcher/cpu-flag-runs-single-process",)),
    Application(
        remedy="compile-cache-folder",
        computed={"TORCHINDUCTOR_CACHE_DIR": "inductor-cache", "TRITON_CACHE_DIR": "triton-cache"},
        in_process=False,
    ),
    Application(
        remedy="nccl-interface",
        computed={"NCCL_SOCKET_IFNAME": "network-interface", "GLOO_SOCKET_IFNAME": "network-interface"},
        in_process=False,
    ),
    Application(
        remedy="limit-build-jobs",
        variables={"NVCC_THREADS": "1"},
        computed={"MAX_JOBS": "build-jobs"},
        in_process=False,
    ),
    Application(remedy="no-sync-while-accumulating"),
    Application(remedy="one-parameter-dtype"),
    Application(remedy="shard-root"),
    Application(remedy="register-forward-method"),
    Application(remedy="call-the-wrapper", corrects=("sharding/gradients-not-reduced",)),
    Application(remedy="existing-layer-class"),
    Application(remedy="tie-weights-again", corrects=("trainer/tied-weights-broken-by-materialization",)),
    Application(remedy="compile-each-block"),
    Application(remedy="compile-inner-network"),
    Application(remedy="autocast-around-call"),
    Application(remedy="cast-embeddings-back"),
    Application(remedy="train-mode", corrects=("checkpointing/inactive-in-eval-mode",)),
    Application(remedy="cache-folder-per-rank"),
    Application(remedy="fused-attention-shapes"),
    Application(remedy="expand-kv-heads"),
    Application(remedy="drop-plain-mask"),
    Application(remedy="allow-more-kernels"),
    Application(remedy="disable-cudnn-sdpa", corrects=("attention/cudnn-sdpa-nan-gradients",)),
    Application(remedy="attention-without-layer-index"),
    Application(remedy="dynamic-attention-scale"),
    Application(remedy="isolate-recompiles"),
    Application(remedy="dynamic-module-numbers"),
    Application(remedy="hide-growing-lists"),
    Application(remedy="read-boundaries-once"),
    Application(remedy="bridge-attention"),
    Application(remedy="keep-modes-uniform"),
    Application(remedy="mark-dynamic", excludes=("bucket-lengths",)),
    Application(remedy="bucket-lengths"),
    Application(remedy="wait-before-region"),
    Application(remedy="compile-after-loading"),
    Application(remedy="compile-blocks-in-place"),
    Application(remedy="remove-device-hooks"),
    Application(remedy="compile-without-inductor"),
    Application(remedy="compile-without-cudagraphs"),
    Application(remedy="skip-dynamic-cudagraphs"),
    Application(remedy="checkpoint-around-compile", excludes=("compile-per-block", "compile-in-place")),
    Application(remedy="no-dynamo-lru-cache"),
    Application(remedy="no-determinism-check"),
    Application(remedy="save-router-decision"),
    Application(remedy="deterministic-algorithms"),
    Application(remedy="enable-input-require-grads", corrects=("adapter/reentrant-checkpoint-input-without-grad",)),
    Application(remedy="eval-accumulation-steps"),
    Application(remedy="end-loops-together"),
    Application(remedy="fsdp-use-orig-params", variables={"FSDP_USE_ORIG_PARAMS": "true"}),
    Application(
        remedy="capture-scalar-outputs", variables={"TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS": "1"}, in_process=False
    ),
    Application(
        remedy="accelerate-use-cpu",
        variables={"ACCELERATE_USE_CPU": "true"},
        in_process=False,
        corrects=("launcher/accelerate-ranks-alone",),
    ),
    Application(
        remedy="accelerate-regional-compilation",
        variables={"ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION": "true"},
        in_process=False,
    ),
    Application(
        remedy="expandable-segments",
        variables={
            "PYTORCH_ALLOC_CONF": "expandable_segments:True",
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        },
        in_process=False,
    ),
)


class RemedyError(ValueError):
    """A remedy that is not known, or two that exclude each other."""


@cache
def _by_id() -> dict[str, Application]:
    return {application.remedy: application for application in APPLICATIONS}


def is_known(remedy: str) -> bool:
    """Whether trueup can apply the remedy with this id."""
    return remedy in _by_id()


def application(remedy: str) -> Application:
    """How the remedy with this id is applied; raises RemedyError that names those like it."""
    found = _by_id().get(remedy)
    if found is None:
        near = get_close_matches(remedy, _by_id())
        known = f"did you mean {' or '.join(near)}?" if near else "`trueup fix` writes a file with those that help"
        raise RemedyError(f"no remedy {remedy!r} that trueup can apply; {known}")
    return found


def checked(remedies: Iterable[str]) -> tuple[Application, ...]:
    """The applications of remedies that go together; raises RemedyError where one is unknown or excludes another."""
    found = tuple(application(remedy) for remedy in dict.fromkeys(remedies))
    for each in found:
        for other in found:
            if other.remedy in each.excludes:
                raise RemedyError(f"the remedies {each.remedy} and {other.remedy} exclude each other")
    return found
