"""A trainer's compile option is on, and the model runs eager."""

from __future__ import annotations

import re

from trueup.rules.compilation import compile_calls, coverage, flags_on, nothing_compiled
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, asked, listed, places, taken_out
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Applied, Record

OFF = r"(?:false|0|no|none|off)\b"
OPTION = re.compile(
    r"(?<=\s)-{1,2}(?=[a-z])(?!no[-_]|skip|disable|without)[\w.-]*compile(?:[-_]model)?(?:\.enabled?)?(?![\w-])"
    r"(?:[= ](?:true|1|yes|on)\b)?"
    rf"(?![= ]{OFF}|\.enabled?\b)"
    r"|(?<=\s)\+{0,2}(?!\S*(?:loss|optim|objective|criterion|metric|data|attention|kernel|reward)[\w.]*=)"
    r"(?:[a-z]\w*\.)*(?:(?:use|enable|do|with|torch)_)*compile(?:_model)?(?:\.enabled?)?=(?:true|1|yes|on)\b",
    re.IGNORECASE,
)
"""`--compile`, `--use-torch-compile=true`, `--compile.enable`, and overrides of a configuration: `model.compile=1`."""


def detect(record: Record) -> Sighting | None:
    flags, options = flags_on(record), options_on(record)
    helpers = [call for call in applied(record, "torch.compile") if is_helper(call)]
    if not (flags or options or helpers) or taken_out(record, "compile") or not nothing_compiled(record):
        return None
    compile = record.actual.compile
    if compile_calls(record) and (compile.frames or not flags):
        return None  # the model was handed to torch.compile; what became of it is another class
    switches = tuple(dict.fromkeys(str(call.detail["switch"]) for call in helpers if call.detail.get("switch")))
    only = f"only {listed(call.module or 'a function' for call in helpers)}" if helpers else ""
    asking = listed((*flags, *options, *switches))
    return Sighting(
        message=f"{asking} asks for compilation, and no part of the model was compiled{f', {only}' if only else ''}."
        if asking
        else f"Compilation covers {only}; no part of the model was compiled.",
        evidence=(
            *(Evidence(what=f"setting {name}", value=str(asked(record, "compile", name))) for name in flags),
            *(Evidence(what="option of the command", value=option) for option in options),
            *(Evidence(what="condition under which the helper is compiled", value=switch) for switch in switches),
            Evidence(what="frames that Dynamo started to compile", value=compile.frames),
            *coverage(compile),
            *places(helpers[:2]),
        ),
        confidence="established" if flags else "likely" if options or switches else "possible",
        severity=None if asking else "note",
    )


def options_on(record: Record) -> tuple[str, ...]:
    """Options and overrides on the job's command line that ask for compilation."""
    return tuple(dict.fromkeys(match[0].strip() for match in OPTION.finditer(" ".join(record.command))))


def is_helper(call: Applied) -> bool:
    """True for a function of the user's own that was handed to torch.compile."""
    return call.detail.get("target") == "function" and call.detail.get("by") is None and not call.detail.get("disabled")


RULE = Rule(
    id="trainer/compile-flag-without-effect",
    title="Compile setting does not compile the model",
    layers=("compile", "sharding", "trainer"),
    severity="warning",
    silent="The option is accepted; some trainers even log success, because torch.compile is lazy.",
    cause=(
        "The flag means less than its name (one loss helper), means something else in this engine, or moved "
        "to another section so that the old key is ignored."
    ),
    remedies=(
        Remedy(
            id="compile-each-block",
            kind="in-process",
            automatic=True,
            how="block.compile() for each block before fully_shard, or the key in the section that the engine reads",
        ),
    ),
    caution="Log lines about compilation prove nothing; captured frames do.",
    sources=("https://github.com/verl-project/verl/issues/2425",),
    explains=("compile/requested-and-not-applied",),
    from_record=detect,
)
