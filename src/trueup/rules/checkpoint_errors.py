"""CheckpointError, read: what the recomputation of a checkpoint saved otherwise than the forward did.

The sentences are the same for all causes; shapes, dtypes, counts and frames tell them apart. The tip that torch 2.13
prints below them names torch.compile whatever the cause is, so it is no evidence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from trueup.rules.log_facts import Mention, mentions
from trueup.rules.log_parts import frames
from trueup.rules.log_text import normal
from trueup.rules.printed_dtypes import dtype
from trueup.schema.finding import Evidence
from trueup.schema.log import Failure, Frame, Log

COUNTS_DIFFER = r"(?:A different|different) number of tensors was saved during the original forward and recomputation"
METADATA_DIFFER = r"Recomputed values for the following tensors have different metadata than during the forward"
UNPACKED = r"torch\.utils\.checkpoint: (?:Unpack is being triggered|trying to save more tensors during recomputation)"
_ERROR = rf"{COUNTS_DIFFER}|{METADATA_DIFFER}|{UNPACKED}"

_TIP = re.compile(r"\n?Tip: To see a more detailed error message.*", re.S)
_META = (
    r"\{shape: (?:torch\.Size\()?\[(?P<{0}_shape>[^\]]*)\]\)?, dtype: (?P<{0}_dtype>[\w.]+)"
    r"(?:, device: device\((?:type=)?(?P<{0}_device>\w+))?"
)
_PAIR = re.compile(
    r"saved metadata: "
    + _META.replace("{0}", "saved")
    + r"[^\n]*\n\s*recomputed metadata: "
    + _META.replace("{0}", "again")
)
_SAVED = re.compile(r"saved during (?:the )?(?:original )?forward: (\d+)")
_AGAIN = re.compile(r"saved during (?:the )?recomputation: (\d+)")
_COMPILED_FRAMES = re.compile(
    r"torch/_functorch/|torch/_inductor/|torchinductor_|torch/_dynamo/output_graph|<eval_with_key>"
    r"|/torch_compile_cache/|torch/_higher_order_ops/"
)
_COMPILED_FUNCTIONS = re.compile(r"compile_wrapper|torch_dynamo_resume|CompiledFunction|call_func_at_runtime")
_COMPILED_WORDS = re.compile(
    r"torch\.compile\b|torch_dynamo_resume|CompiledFunctionBackward|OptimizedModule|_orig_mod\b|torchinductor"
    r"|inductor_config"
    r"|reduce-overhead|max-autotune"
)


@dataclass(frozen=True)
class Metadata:
    """Shape, dtype and device kind of a saved tensor, as printed."""

    shape: tuple[int, ...]
    dtype: str
    device: str | None

    @property
    def rows(self) -> int:
        """Size of the first dimension."""
        return self.shape[0] if self.shape else 0


@dataclass(frozen=True)
class Difference:
    """One saved tensor, in the forward and in the recomputation."""

    saved: Metadata
    again: Metadata

    @property
    def emptied(self) -> bool:
        """A parameter of which only an empty placeholder is left."""
        return self.again.shape == (0,) and self.saved.shape != (0,)

    @property
    def recast(self) -> bool:
        """Only the dtype is another one."""
        return self.saved.shape == self.again.shape and self.saved.dtype != self.again.dtype

    @property
    def resized(self) -> tuple[int, ...]:
        """The dimensions that differ; empty for tensors of different rank."""
        if len(self.saved.shape) != len(self.again.shape):
            return ()
        return tuple(at for at, size in enumerate(self.saved.shape) if size != self.again.shape[at])


@dataclass(frozen=True)
class CheckpointError:
    """A recomputation that does not match, and all that the log tells about it."""

    mention: Mention
    log: Log

    @property
    def failure(self) -> Failure:
        return self.mention.failure

    @cached_property
    def text(self) -> str:
        """What was printed, in normal form, without torch's tip."""
        return _TIP.sub("", self.mention.part.said)

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """The tensors that the message lists."""
        found = (_difference(pair) for pair in _PAIR.finditer(self.text))
        return tuple(each for each in found if each)

    @cached_property
    def counts(self) -> tuple[int, int] | None:
        """Tensors saved during forward and during recomputation, where the message tells both."""
        saved, again = _SAVED.search(self.text), _AGAIN.search(self.text)
        return (int(saved[1]), int(again[1])) if saved and again else None

    @cached_property
    def frames(self) -> tuple[Frame, ...]:
        """All frames, and none where the log shows only the message."""
        return (*frames(self.failure), *self.failure.user_frames)

    @cached_property
    def compiled(self) -> bool:
        """True when compiled code ran inside of the checkpoint.

        Frames of torch/_dynamo/eval_frame.py are no sign: checkpoint itself passes through them.
        """
        return any(
            _COMPILED_FRAMES.search(frame.file.replace("\\", "/")) or _COMPILED_FUNCTIONS.search(frame.function or "")
            for frame in self.frames
        ) or bool(_COMPILED_WORDS.search(self._words))

    def names(self, expression: str) -> Frame | str | None:
        """A frame whose file, function or line holds the expression, else the words of the message that do."""
        wanted = re.compile(expression, re.I)
        for frame in reversed(self.frames):
            if wanted.search(f"{frame.file} {frame.function or ''} {frame.code or ''}"):
                return frame
        found = wanted.search(self.text)
        return found.group() if found else None

    def evidence(self) -> tuple[Evidence, ...]:
        """The sentence, then the first tensor or the counts that differ."""
        seen = [self.mention.evidence(self.log)]
        if self.differences:
            first = self.differences[0]
            seen.append(Evidence(what="saved in the forward", value=_in_words(first.saved)))
            seen.append(Evidence(what="saved in the recomputation", value=_in_words(first.again)))
        elif self.counts:
            seen.append(Evidence(what="tensors saved in the forward", value=self.counts[0]))
            seen.append(Evidence(what="tensors saved in the recomputation", value=self.counts[1]))
        return tuple(seen)

    @cached_property
    def _words(self) -> str:
        code = "\n".join(normal(frame.code) for frame in self.frames if frame.code)
        return f"{self.text}\n{code}"


def checkpoint_error(log: Log) -> CheckpointError | None:
    """The first one of a log."""
    found = next(mentions(log, _ERROR), None)
    return CheckpointError(found, log) if found else None


def place_of(seen: Frame | str) -> str:
    """Where something was seen, in words."""
    if isinstance(seen, str):
        return seen
    return f"{seen.file.rpartition('site-packages/')[2]}{f':{seen.line}' if seen.line else ''}"


def _difference(pair: re.Match[str]) -> Difference | None:
    try:
        saved, again = (
            Metadata(
                shape=tuple(int(size) for size in pair[f"{which}_shape"].split(",") if size.strip()),
                dtype=dtype(pair[f"{which}_dtype"]),
                device=pair[f"{which}_device"],
            )
            for which in ("saved", "again")
        )
    except ValueError:  # symbolic sizes
        return None
    return Difference(saved, again)


def _in_words(metadata: Metadata) -> str:
    return f"{list(metadata.shape)} {metadata.dtype}"
