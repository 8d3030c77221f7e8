"""What torch.compile does, from torch's own structured trace, heard live in this process.

`counters["graph_break"]` and `torch._dynamo.explain` under-report; the artifact `dynamo_graph_break_reason` does not.
`recompile_reasons` carries no stack: the `dynamo_start` of the same compile id, which follows, does. A frame that hits
the recompile limit starts no compile: it shows only as a compilation metric with a failure (all seen on torch 2.13).
"""

from __future__ import annotations

import json
import logging
import os
import re

from trueup_instrument import places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from trueup_instrument.session import Session

NAME = "compile_trace"

LOGGER = "torch.__trace"
REASONS_KEPT = 8
LENGTH_KEPT = 400
LIMIT = re.compile(r"(accumulated_recompile_limit|accumulated_cache_size_limit|recompile_limit|cache_size_limit)")
OPTIMIZERS = f"{os.sep}optim{os.sep}"
OPTIMIZER_FILE = f"{os.sep}torch{OPTIMIZERS}optimizer.py"
"""Its functions stand around the step of every optimizer."""
CHECKPOINT = "tag_activation_checkpoint"
HIGHER_ORDER = re.compile(r"[Hh]igher[ -]?[Oo]rder[ -]?[Oo]p(?:erator)?:? `?([\w.]+)`?")
OPTIMIZER_CODE = ("/torch/optim/", "\\torch\\optim\\", "_foreach_", "_fused_adam", "_fused_sgd")
"""In the text of a graph, which names the file of each operator's code."""
SUBGRAPH = re.compile(r"higher_order_ops\.py\", line \d+, in (?:speculate_subgraph|create_wrapped_node)")
"""Frames of Dynamo's own that trace the body of a higher-order operator, which the reason often leaves unnamed."""
SOME_OPERATOR = "a higher-order operator"
UNINFORMATIVE = ("Encountered graph break when", "Failed to handle graph break gracefully")


def attach(session: Session) -> None:
    session.compile_activity = 0
    session.imports.after("torch", session.guarded(NAME, lambda torch: _listen(session)))


def _listen(session: Session) -> None:
    logger = logging.getLogger(LOGGER)
    handler, level = TraceHandler(session), logger.level
    logger.addHandler(handler)
    if logger.level in (logging.NOTSET,) or logger.level > logging.DEBUG:
        logger.setLevel(logging.DEBUG)
    limits = logging.getLogger("torch._dynamo.convert_frame")
    limit_filter = LimitFilter(session)
    limits.addFilter(limit_filter)

    def silence() -> None:
        logger.removeHandler(handler)
        limits.removeFilter(limit_filter)
        if not logger.handlers:
            logger.setLevel(level)

    session.undo.append(silence)


class LimitFilter(logging.Filter):
    """Sees Dynamo's warning that a recompile limit was reached, and lets every record through."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._saw = session.guarded(NAME, self._look)
        self._session = session

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING:
            self._saw(record)
        return True

    def _look(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        found = LIMIT.search(text)
        if found is None or " hit " not in text:
            return
        function = re.search(r"function: '?(.+?)'? \((.+):(\d+)\)", text)
        reason = re.search(r"last reason: (.+)", text)
        at = re.findall(r'File "([^"]+)", line (\d+)', text)
        self._session.compile_activity += 1
        self._session.write(
            "compile",
            what="limit",
            function=_shown_function(*function.groups()) if function else None,
            limit=found.group(1),
            reason=_short(reason.group(1)) if reason else None,
            at=places.user_line_of([(file, int(line)) for file, line in at]),
        )


class TraceHandler(logging.Handler):
    """Turns records of the structured trace into `compile` events."""

    def __init__(self, session: Session) -> None:
        super().__init__(logging.DEBUG)
        self._session = session
        self._strings: dict[int, str] = {}
        self._reasons: dict[str, list[str]] = {}
        self._functions: dict[str, str] = {}
        self.emit = session.guarded(NAME, self._emit)  # type: ignore[method-assign]  # takes one record, as emit does

    def _emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "metadata", None)
        if not fields:
            return
        if "chromium_event" in fields:
            return
        if "str" in fields:
            text, number = fields["str"]
            self._strings[number] = text
        elif "dynamo_start" in fields:
            self._start(fields)
        elif "dynamo_output_graph" in fields:
            payload = getattr(record, "payload", None) or ""
            self._write("graph", fields, checkpoints=payload.count(CHECKPOINT + "("))
            if not self._session.optimizer_compiled and any(name in payload for name in OPTIMIZER_CODE):
                self._session.optimizer_compiled = True
                for listener in self._session.on_optimizer_compiled:
                    listener()
        elif "compilation_metrics" in fields:
            self._metrics(fields, fields["compilation_metrics"])
        elif "bwd_compilation_metrics" in fields:
            self._seconds(fields, fields["bwd_compilation_metrics"])
        elif "artifact" in fields:
            self._artifact(fields, fields["artifact"].get("name"), getattr(record, "payload", None) or "")

    def _artifact(self, fields: dict[str, Any], name: str | None, payload: str) -> None:
        if name == "recompile_reasons":
            self._reasons[compile_id(fields)] = reasons_in(payload)
        elif name == "dynamo_graph_break_reason":
            self._break(fields, payload)
        elif name in ("fx_graph_cache_hit", "fx_graph_cache_miss"):
            self._session.write("compile", what="cache", hit=name.endswith("hit"))

    def _start(self, fields: dict[str, Any]) -> None:
        self._session.compile_activity += 1
        key = compile_id(fields)
        frames = [
            (self._file(frame.get("filename")), frame.get("line") or 0, frame.get("name"))
            for frame in fields["dynamo_start"].get("stack") or ()
        ]
        at = places.user_line_of([frame[:2] for frame in frames])
        function = _shown_function(frames[-1][2], frames[-1][0], frames[-1][1]) if frames else None
        if fields.get("attempt"):
            return
        self._write("start", fields, function=function, at=at)
        reasons = self._reasons.pop(key, None)
        if reasons:
            clock = self._session.clock
            self._write(
                "recompile",
                fields,
                reasons=reasons,
                function=function,
                at=at,
                step=clock.steps + 1 if clock is not None else None,
                within="optimizer step" if is_of_optimizer(frames) else None,
            )

    def _break(self, fields: dict[str, Any], payload: str) -> None:
        place = re.match(r"Graph break in user code at (.+):(\d+)", payload)
        reason = payload.partition("Graph Break Reason: ")[2] or payload
        head, _, trace = reason.partition("User code traceback:")
        stack = re.findall(r'File "([^"]+)", line (\d+)', trace.partition("\nTraceback (most")[0])
        frames = [(file, int(line)) for file, line in stack]
        if place:
            frames.append((place.group(1), int(place.group(2))))
        gb = re.search(r"/gb/(gb\d+)", head)
        explanation = re.search(r"Explanation: (.+)", head)
        context = re.search(r"Developer debug context: (.+)", head)
        operator = HIGHER_ORDER.search(head)
        self._write(
            "break",
            fields,
            reason=_short(_headline(head)),
            explanation=_short(explanation.group(1)) if explanation else None,
            context=_short(context.group(1)) if context else None,
            type=gb.group(1) if gb else None,
            at=places.user_line_of(frames),
            frame=f"{places.installed(frames[-1][0])}:{frames[-1][1]}" if frames else None,
            inside=operator.group(1) if operator else SOME_OPERATOR if SUBGRAPH.search(payload) else None,
        )

    def _metrics(self, fields: dict[str, Any], metrics: dict[str, Any]) -> None:
        failure = metrics.get("fail_type")
        if failure:
            from trueup_instrument.secret_texts import text_without_secrets

            reason = metrics.get("fail_reason") or ""
            place = metrics.get("fail_user_frame_filename")
            self._write(
                "failure",
                fields,
                function=_shown_function(
                    metrics.get("co_name"), metrics.get("co_filename"), metrics.get("co_firstlineno")
                ),
                error=f"{failure}: {_short(text_without_secrets(reason))}",
                at=f"{places.shown(place)}:{metrics.get('fail_user_frame_lineno')}" if place else None,
            )
        self._seconds(fields, metrics)

    def _seconds(self, fields: dict[str, Any], metrics: dict[str, Any]) -> None:
        microseconds = metrics.get("duration_us")
        seconds = metrics.get("entire_frame_compile_time_s") if microseconds is None else microseconds / 1e6
        if seconds:
            self._write("seconds", fields, seconds=round(seconds, 4))

    def _file(self, name: Any) -> str:
        """Files are interned: a number stands for a string that an earlier `str` record gave."""
        return self._strings.get(name, str(name)) if isinstance(name, int) else str(name)

    def _write(self, what: str, fields: dict[str, Any], **rest: Any) -> None:
        self._session.write("compile", what=what, id=compile_id(fields), **rest)


def compile_id(fields: dict[str, Any]) -> str:
    """`frame/compile`, as Dynamo prints it."""
    return f"{fields.get('frame_id')}/{fields.get('frame_compile_id')}"


def is_of_optimizer(frames: Sequence[tuple[str, int, str | None]]) -> bool:
    """Whether a compiled function, the last of `frames`, is called by an optimizer's step, and not by its closure.

    `frames` are (file, line, function), outermost first. Lightning and L-BFGS run the whole forward inside of
    `optimizer.step(closure)`: a module is called there, or a step of torch's own calls code that is not torch's.
    """
    if frames and frames[-1][0].endswith(OPTIMIZER_FILE):
        return True
    steps = [
        place
        for place, (file, _, name) in enumerate(frames)
        if (name == "step" and OPTIMIZERS in file) or name == "profile_hook_step"
    ]
    if not steps:
        return False
    inside = frames[steps[-1] + 1 :]
    if any(name in ("_call_impl", "_wrapped_call_impl") for _, _, name in inside):
        return False
    torchs_own = f"{os.sep}torch{OPTIMIZERS}" in frames[steps[-1]][0] and frames[steps[-1]][2] == "step"
    return not (torchs_own and any(f"{os.sep}torch{os.sep}" not in file for file, _, _ in inside))


def reasons_in(payload: str) -> list[str]:
    """The failed guards of a `recompile_reasons` payload: one string, or a JSON list with one for each cached graph."""
    try:
        parts = json.loads(payload)
    except ValueError:
        parts = payload
    parts = parts if isinstance(parts, list) else [str(parts)]
    return [_short(str(part).partition("\nUser stack trace")[0]) for part in parts[:REASONS_KEPT]]


def _headline(text: str) -> str:
    """The first line of a graph break reason that says what happened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    while len(lines) > 1 and lines[0].startswith(UNINFORMATIVE):
        lines.pop(0)
    return lines[0] if lines else ""


def _short(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()[:LENGTH_KEPT]


def _shown_function(name: Any, file: str | None, line: Any) -> str:
    return f"{name} ({places.installed(file)}:{line})" if file else str(name)
