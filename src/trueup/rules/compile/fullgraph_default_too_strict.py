"""A library compiled with fullgraph=True by default, and one harmless break became an error."""

from __future__ import annotations

from trueup.rules.break_logs import break_lines
from trueup.rules.definition import Rule, Sighting
from trueup.rules.log_facts import passes
from trueup.schema.finding import Remedy
from trueup.schema.log import Log

DELIBERATE = r"torch\.compiler\.disable|torch\._dynamo\.graph_break"


def detect_log(log: Log) -> Sighting | None:
    """Dynamo raised inside of generate()."""
    for each in break_lines(log):
        frame = passes(each.failure, "transformers/generation/")
        if each.raised and frame is not None and not each.says(DELIBERATE):
            return each.sighting(
                log,
                "generate() compiled the forward with fullgraph=True, so a graph break ended it.",
                "likely",
                specificity=900,
            )
    return None


RULE = Rule(
    id="compile/fullgraph-default-too-strict",
    title="A library default of fullgraph=True turns any break into an error",
    layers=("compile", "trainer"),
    severity="error",
    silent="",
    cause=(
        "generate() compiles the forward with its CompileConfig, whose default was fullgraph=True before transformers "
        "4.56, and which a job may set so: one break that training does not meet ends it."
    ),
    remedies=(
        Remedy(
            id="generate-without-fullgraph",
            kind="in-process",
            automatic=True,
            how="model.generation_config.compile_config = CompileConfig(fullgraph=False)",
        ),
        Remedy(id="upgrade-transformers", kind="install", automatic=False, how="pip install -U 'transformers>=4.56'"),
    ),
    caution="In training the flag comes from ACCELERATE_DYNAMO_USE_FULLGRAPH or from the job's own code.",
    sources=("https://github.com/huggingface/transformers/pull/40137",),
    from_log=detect_log,
)
