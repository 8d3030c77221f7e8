"""What can be told of a failure that no rule knows, without guessing: where it happened."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from trueup.rules.log_judgement import judgement_of
from trueup.rules.log_parts import frames, place, printed, ranks_of, shortened
from trueup.schema.explanation import Explanation, Unexplained
from trueup.schema.layer import Layer
from trueup.schema.log import Failure, Frame, Log

MOST = 20
INSTALLED = re.compile(
    r"(?:site|dist)-packages/|/lib(?:64)?/python\d[\d.]*/|<frozen |<string>|\.so\b|/trueup_instrument/"
)
LAYERS_OF_CODE: tuple[tuple[str, Layer], ...] = (
    ("torch/utils/checkpoint.py", "checkpointing"),
    ("checkpoint_wrapper.py", "checkpointing"),
    ("torch/utils/cpp_extension.py", "environment"),
    ("torch/distributed/fsdp/", "sharding"),
    ("torch/distributed/_composable/", "sharding"),
    ("torch/distributed/tensor/", "sharding"),
    ("torch/distributed/_tensor/", "sharding"),
    ("torch/distributed/checkpoint/", "sharding"),
    ("torch/nn/parallel/", "sharding"),
    ("deepspeed/", "sharding"),
    ("torch/distributed/", "launcher"),
    ("torch/multiprocessing/", "launcher"),
    ("accelerate/commands/", "launcher"),
    ("torch/amp/", "precision"),
    ("torch/cuda/amp/", "precision"),
    ("transformer_engine/", "precision"),
    ("torchao/", "precision"),
    ("torch/nn/attention/", "attention"),
    ("flash_attn", "attention"),
    ("xformers/", "attention"),
    ("sageattention/", "attention"),
    ("modeling_flash_attention_utils.py", "attention"),
    ("sdpa_attention.py", "attention"),
    ("torch/_dynamo/", "compile"),
    ("torch/_inductor/", "compile"),
    ("torch/_functorch/", "compile"),
    ("torch/fx/", "compile"),
    ("triton/", "compile"),
    ("peft/", "adapter"),
    ("bitsandbytes/", "adapter"),
    ("torch/cuda/memory.py", "memory"),
    ("transformers/trainer", "trainer"),
    ("trl/", "trainer"),
    ("accelerate/", "trainer"),
    ("lightning/", "trainer"),
    ("pytorch_lightning/", "trainer"),
)
"""Part of a path → the layer whose code it is; the first that fits."""


def explain(log: Log) -> Explanation:
    """The findings of a log, and the root failures that none of them explains."""
    judgement = judgement_of(log)
    return Explanation(
        findings=judgement.findings,
        unexplained=tuple(_unexplained(log, judgement.explained))[:MOST],
        sources=log.sources,
        notes=log.notes,
        lines=log.lines,
        size=log.size,
        ranks=log.ranks,
        world_size=log.world_size,
        versions=log.versions,
    )


def _unexplained(log: Log, explained: frozenset[int]) -> Iterator[Unexplained]:
    """Failures that may be causes, equal ones once; a job with an explained root has explained its others too."""
    if any(log.failures[position].role == "root" for position in explained if position >= 0):
        return
    alike: dict[str, Unexplained] = {}
    for position, failure in enumerate(log.failures):
        if failure.role != "root" or position in explained or failure.kind == "message":
            continue
        told = _told(log, failure)
        before = alike.get(told.text)
        if before is not None:
            ranks = tuple(sorted({*before.ranks, *told.ranks}))
            told = msgspec.structs.replace(before, ranks=ranks, count=before.count + told.count)
        alike[told.text] = told
    yield from alike.values()


def _told(log: Log, failure: Failure) -> Unexplained:
    innermost_first = list(frames(failure))[::-1]
    library = next(((frame, layer) for frame in innermost_first if (layer := layer_of(frame.file))), None)
    user = next((frame for frame in innermost_first if not INSTALLED.search(frame.file)), None)
    lines = printed(failure).splitlines() or [failure.kind]
    return Unexplained(
        text=shortened(lines[0]),
        type=failure.type,
        layer=library[1] if library else None,
        library=_in_words(library[0]) if library else None,
        user=_in_words(user) if user else None,
        at=place(log, failure),
        ranks=ranks_of(failure),
        count=failure.count,
    )


def layer_of(file: str) -> Layer | None:
    """The layer whose code a file is, None for a file that belongs to none."""
    path = file.replace("\\", "/")
    if "site-packages/" in path:
        path = path.rpartition("site-packages/")[2]
    return next((layer for part, layer in LAYERS_OF_CODE if _holds(path, part)), None)


def _holds(path: str, part: str) -> bool:
    """True when the part begins at the beginning of a name of the path."""
    return path.startswith(part) or f"/{part}" in path


def _in_words(frame: Frame) -> str:
    line = f":{frame.line}" if frame.line else ""
    return f"{frame.file.rpartition('site-packages/')[2]}{line}" + (f" in {frame.function}" if frame.function else "")
