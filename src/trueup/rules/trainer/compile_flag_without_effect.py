"""A trainer's compile option is on, and the model runs eager."""

from __future__ import annotations

from trueup.rules.compilation import compile_calls, coverage, flags_on, nothing_compiled
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, asked, listed, places, switched
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    flags = flags_on(record)
    if not flags or switched(record, "compile") or not nothing_compiled(record):
        return None
    compile = record.actual.compile
    if compile_calls(record) and compile.frames:
        return None  # the flag did compile the model; what became of it is another class
    helpers = [call for call in applied(record, "torch.compile") if call.detail.get("target") == "function"]
    only = f", only {listed(call.module or 'a function' for call in helpers)}" if helpers else ""
    return Sighting(
        message=f"{listed(flags)} asks for compilation, and no part of the model was compiled{only}.",
        evidence=(
            *(Evidence(what=f"setting {name}", value=str(asked(record, "compile", name))) for name in flags),
            Evidence(what="frames that Dynamo started to compile", value=compile.frames),
            *coverage(compile),
            *places(helpers[:2]),
        ),
    )


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
            id="compile-per-block",
            kind="in-process",
            automatic=False,
            how="block.compile() for each block before fully_shard, or the key in the section that the engine reads",
        ),
    ),
    caution="Log lines about compilation prove nothing; captured frames do.",
    sources=("https://github.com/verl-project/verl/issues/2425",),
    explains=("compile/requested-and-not-applied",),
    from_record=detect,
)
