"""The partitioner was given an activation budget below everything."""

from __future__ import annotations

from trueup.rules.compilation import compile_asked
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    budgets = [each for each in applied(record, "functorch.config") if "activation_memory_budget" in each.detail]
    compile = record.actual.compile
    if not budgets or not compile_asked(record) or not compile.graphs:
        return None
    budget = float(budgets[-1].detail["activation_memory_budget"])
    marked = compile.checkpoints_in_graph
    return Sighting(
        message=f"activation_memory_budget is {budget:g}: the compiler chooses what to recompute by a coarse estimate"
        f"{', and ignores the ' + str(marked) + ' checkpoints marked in its graphs' if marked else ''}.",
        evidence=(
            Evidence(what="torch._functorch.config.activation_memory_budget", value=budget),
            Evidence(what="graphs", value=compile.graphs),
        ),
        confidence="possible",
    )


RULE = Rule(
    id="checkpointing/memory-budget-recomputes-too-much",
    title="Activation memory budget recomputes more than necessary",
    layers=("compile", "checkpointing"),
    severity="note",
    silent="The step is slower than the memory saved would suggest; nothing says what is recomputed.",
    cause=(
        "The partitioner solves a coarse knapsack over estimated costs and ignores checkpoint regions that the user "
        "marked, so a small request may recompute expensive operators."
    ),
    remedies=(
        Remedy(
            id="full-memory-budget",
            kind="in-process",
            automatic=True,
            how="torch._functorch.config.activation_memory_budget = 1.0, its default",
        ),
        Remedy(
            id="explicit-checkpointing",
            kind="in-process",
            automatic=False,
            how="checkpoint blocks or operators explicitly and leave the budget at 1.0, or measure a few budgets",
        ),
    ),
    caution="Without compilation the setting does nothing; a budget that was measured is as it should be.",
    from_record=detect,
)
