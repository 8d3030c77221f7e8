"""`verify`: run a control and a candidate in interleaved pairs, and say whether they compute the same, and how fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from trueup.procedures.agreement import agreement, where
from trueup.procedures.numerics import lowest_dtype
from trueup.procedures.speed import effect, speed
from trueup.procedures.switched import OFF, switched
from trueup.runs.probe import EAGER_RANDOM
from trueup.schema.record import Record
from trueup.schema.variant import Variant, named
from trueup.schema.verification import Numerics, Peak, Switched, Verdict, Verification

Run = Callable[[Variant], Record]

LAYERS_OFF = named(Variant(layers=OFF))
"""The control where none is named."""
HIGHER = {"bfloat16": "fp32", "float16": "fp32", "float32": "fp64"}
"""The lowest dtype of the multiplications → the precision of a reference that decides."""
REACHED = {"fp32": ("float32", "float64"), "fp64": ("float64",)}
"""Precision of a reference → the lowest dtype that its own multiplications show then."""
SAME_RANDOM = (
    "compiled code draws random numbers of its own (dropout); what is compared is a run of the candidate that draws "
    "those of eager code, whose time does not count"
)


def in_precision(control: Variant, precision: str) -> Variant:
    """The reference of a control: the same in `precision`, fp32 or fp64."""
    layers = {**control.layers, "precision": precision}
    return named(msgspec.structs.replace(control, name=Variant().name, layers=layers))


def with_eager_random(candidate: Variant) -> Variant:
    """The candidate, with compiled code that draws the random numbers of eager code."""
    name = f"{candidate.name}, random numbers of eager code"
    return msgspec.structs.replace(candidate, name=name, environment={**candidate.environment, EAGER_RANDOM: "1"})


def verify(run: Run, control: Variant, candidate: Variant, pairs: int = 2, limits: Sequence[str] = ()) -> Verification:
    """Compare the job as `candidate` with the job as `control`, by `run`, which returns the record of a variant of it.

    The order turns round from pair to pair, so that what changes steadily (caches, heat) favours neither. Two pairs are
    the least that shows the noise of the control. Where rounding does not explain a difference, the control is run in
    the next higher precision, float32 or float64, to see which of them is right. `limits` says, when all is done, what
    the runs could not keep apart from the user's files.
    """
    controls: list[Record] = []
    candidates: list[Record] = []
    references: list[Record] = []
    same_random: list[Record] = []
    notes: list[str] = []
    sides = ((control, controls), (candidate, candidates))
    failure = ""
    for pair in range(pairs):
        for variant, records in sides if pair % 2 == 0 else sides[::-1]:
            if not failure:
                records.append(run(variant))
                failure = _failure("control" if records is controls else "candidate", records[-1])
    numbers = Numerics(verdict="not compared", why=failure) if failure else agreement(controls, candidates)
    if numbers.verdict == "different" and _draw_differently(controls, candidates):
        same_random = [record for record in [run(with_eager_random(candidate))] if not _failure("", record)]
    compared = same_random or candidates
    if same_random:
        numbers = agreement(controls, compared)
        notes.append(SAME_RANDOM)
    wanted = HIGHER.get(lowest_dtype(*controls, *compared))
    reference = in_precision(control, wanted) if wanted else control
    if numbers.verdict == "different" and wanted and control.layers.get("precision") not in (wanted, "fp64"):
        references.append(run(reference))
        if not _failure("", references[0]) and lowest_dtype(*references) in REACHED[wanted]:
            numbers = agreement(controls, compared, references)
        else:
            notes.append(f"the reference fails, or is not in {wanted} throughout: it decides nothing")
    layers = tuple(switched(*asked, controls[0], candidates[0]) for asked in control.layers.items() if candidates)
    verdict, why = _verdict(failure, numbers, layers, controls, candidates)
    ratio = speed(controls, candidates)
    return Verification(
        verdict=verdict,
        why=why,
        numerics=numbers,
        speed=ratio,
        effect=effect(ratio),
        memory=_peak(controls, candidates),
        switched=layers,
        command=controls[0].command,
        control=control.name,
        candidate=candidate.name,
        reference=reference.name if references else None,
        controls=tuple(controls),
        candidates=tuple(candidates),
        references=tuple(references),
        same_random=tuple(same_random),
        notes=(*_notes(control, candidate, layers, controls), *notes, *limits),
    )


def _failure(side: str, record: Record) -> str:
    """What ended a run that was to be compared; empty for one that ended well."""
    if record.exit.code == 0:
        return ""
    return f"the {side} fails ({record.exit.reason or f'exit code {record.exit.code}'})"


def _draw_differently(controls: Sequence[Record], candidates: Sequence[Record]) -> bool:
    """Whether the job may draw random numbers in its steps, and in compiled code on one side only."""
    compiled = [any(record.actual.compile.graphs for record in records) for records in (controls, candidates)]
    return compiled == [False, True] and any(record.actual.checkpointing.random_ops != 0 for record in controls)


def _attention_drops_differently(control: Record, candidate: Record) -> bool:
    """Whether attention with dropout ran other kernels; the eager control shows what its calls were given."""
    ours, theirs = ({kernel.name for kernel in record.actual.attention.kernels} for record in (candidate, control))
    return ours != theirs and any("dropout" in call for call in control.actual.attention.sdpa_calls)


def _verdict(
    failure: str,
    numbers: Numerics,
    layers: Sequence[Switched],
    controls: Sequence[Record],
    candidates: Sequence[Record],
) -> tuple[Verdict, str]:
    if failure:
        return "failed", failure
    ours, theirs = ({record.steps.count for record in records} for records in (candidates, controls))
    if ours != theirs and len(ours) == len(theirs) == 1:
        return "different", f"the candidate made {min(ours)} optimizer steps and the control {min(theirs)}"
    if numbers.verdict == "different" and _attention_drops_differently(controls[0], candidates[0]):
        return "not compared", "attention drops scores at random, and each of the kernels draws other ones"
    if numbers.verdict == "different":
        closer = (
            f"; the {numbers.closer} is closer to the reference" if numbers.closer in ("control", "candidate") else ""
        )
        return "different", f"more than rounding and noise explain, {where(numbers.steps)}{closer}"
    for layer in layers:
        if layer.state == "still on":
            return "not compared", f"the control is none: {layer.layer} is still on in it ({layer.control})"
    if numbers.verdict == "not compared":
        return "not compared", numbers.why
    if numbers.verdict == "within noise":
        return (
            "within noise",
            "nothing differs by more than the control does from itself, which does not reproduce itself",
        )
    if numbers.closer is not None:
        return "verified", "the candidate is as near to the reference as the control"
    return "verified", "same losses" if numbers.verdict == "equal" else "losses differ by rounding only"


def _notes(
    control: Variant, candidate: Variant, layers: Sequence[Switched], controls: Sequence[Record]
) -> Iterator[str]:
    for note in controls[0].notes:
        if not controls[0].ranks or (note.what.startswith("--set ") and "did not reach everything" in note.what):
            yield f"in the control: {note.what}"
    otherwise = any(side.remedies or side.environment for side in (control, candidate))
    if layers and not otherwise and not any(layer.on_in_candidate for layer in layers):
        names = ", ".join(layer.layer for layer in layers)
        yield f"what the control leaves off is not seen in the candidate either ({names}): both ran the same stack"


def _peak(controls: Sequence[Record], candidates: Sequence[Record]) -> Peak:
    highest = [
        max((peak for record in records if (peak := record.actual.memory.peak_bytes) is not None), default=None)
        for records in (controls, candidates)
    ]
    return Peak(control_bytes=highest[0], candidate_bytes=highest[1], source=controls[0].actual.memory.source)
