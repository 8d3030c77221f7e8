"""The reduction: one file, constants, switches, small sizes, few statements; each step kept where it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from trueup.procedures.reproduction.budget import Checked
from trueup.procedures.reproduction.candidate import NAME, Candidate, OutOfBudget, Sources
from trueup.procedures.reproduction.judging import RAISED
from trueup.procedures.reproduction.reduction.constants import with_arguments, with_files
from trueup.procedures.reproduction.reduction.deleting import fewest_statements
from trueup.procedures.reproduction.reduction.flattening import flattened
from trueup.procedures.reproduction.reduction.launching import standalone, without_shell
from trueup.procedures.reproduction.reduction.merging import merged
from trueup.procedures.reproduction.reduction.noise import without_noise
from trueup.procedures.reproduction.reduction.sizes import COUNTS, small
from trueup.procedures.reproduction.reduction.source import parsed
from trueup.procedures.reproduction.reduction.switches import BARE, HEADER, with_switches
from trueup.procedures.reproduction.reduction.tidying import tidied
from trueup.procedures.reproduction.titles import documented
from trueup.schema.bisection import Bisection

KEPT = 4
"""Scripts of the way down that are given back, for the case that the last ones fail for another reason."""


def reduced(bisection: Bisection, sources: Sources, checks: Checked, title: str) -> tuple[list[Candidate], str]:
    """Scripts that fail, the smallest first; else the reason why none was found. Raises OutOfBudget before one is."""
    if sources.script is None or parsed(sources.files.get(sources.script, "(")) is None:
        return [], "the command starts no Python script of this folder"
    assert bisection.signature is not None
    shows = bisection.signature.kind in RAISED
    beginnings = _beginnings(sources, title, bisection.minimal, shows)
    start = next((each for each in beginnings if checks.fails(each)), None)
    if start is None:
        return [], "the job's script does not fail in the same way by itself"
    found = [start]

    def tries(change: Callable[[str], str], cured: bool = False) -> bool:
        """Take a change of the last script over where that still fails, and is cured as it is to be."""
        before = found[-1]
        after = _with_body(before, change(body_of(before.script)), title, bisection.minimal)
        if after == before or not checks.fails(after):
            return False
        if cured and not all(checks.passes(after, layer) for layer in bisection.minimal):
            return False
        found.append(after)
        return True

    try:
        if start.outside:
            for layers in _subsets(bisection.minimal):
                left = tuple(layer for layer in bisection.minimal if layer not in layers)
                before = found[-1]
                switched = msgspec.structs.replace(before, outside=left)
                body = with_switches(body_of(before.script), layers)
                after = _with_body(switched, body, title, bisection.minimal)
                if not all(f'"{layer}" ' in body and " off" in body for layer in layers):
                    continue
                if checks.fails(after) and all(checks.passes(after, layer) for layer in bisection.minimal):
                    found.append(after)
                    break
        if not tries(small):
            tries(lambda text: small(text, COUNTS))
        current = found[-1]
        inside = [layer for layer in bisection.minimal if layer not in current.outside]

        def does(body: str) -> bool:
            if any(f'"{layer}"' not in body for layer in inside):
                return False  # a layer without which it fails as well
            after = _with_body(current, body, title, bisection.minimal)
            fails = checks.fails(after)
            if fails:
                found.append(after)
            return fails

        fewest_statements(body_of(current.script), does)
        alone = msgspec.structs.replace(found[-1], alone=True)
        if alone != found[-1] and checks.fails(alone):
            found.append(alone)
    except OutOfBudget:
        pass
    return [*found[: -KEPT - 1 : -1], start], ""


def _beginnings(sources: Sources, title: str, minimal: tuple[str, ...], shows: bool) -> Iterator[Candidate]:
    """Ways to begin, the furthest from the job's own script first."""
    assert sources.script is not None
    own = sources.files[sources.script]
    one = merged(sources.script, sources.files)
    command = without_shell(sources.command)
    place = _place(command, sources.script)
    if place is None:
        return
    begin, words = place

    def written(text: str, launch: tuple[str, ...], alone: bool) -> Candidate:
        empty = Candidate(script="", launch=launch, alone=alone, outside=minimal, shows=shows)
        return _with_body(empty, text, title, minimal)

    before = standalone(command[:begin], sources.files)
    plain = with_arguments(one, words) if one is not None else None
    if plain is not None:
        text = flattened(with_files(plain, sources.files))
        launch = (*_launcher(before), NAME)
        yield written(without_noise(text), launch, True)
        yield written(text, launch, True)
        yield written(text, launch, False)
    if one is not None:
        yield written(one, (*_launcher(before), NAME, *words), False)
    yield written(own, (*_launcher(before), NAME, *words), False)


def _place(command: Sequence[str], script: str) -> tuple[int, tuple[str, ...]] | None:
    """(how many words stand before the script, those after it)."""
    for index, word in enumerate(command):
        if word.removeprefix("./") == script or word.endswith(f"/{script}"):
            return index, tuple(command[index + 1 :])
        if index and command[index - 1] == "-m" and f"{word.replace('.', '/')}.py" == script:
            return index - 1, tuple(command[index + 1 :])
    return None


def _launcher(words: Sequence[str]) -> tuple[str, ...]:
    """Without the folders of programs: they are those of one machine."""
    return tuple(word.rpartition("/")[2] if index == 0 else word for index, word in enumerate(words))


def _subsets(layers: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """All layers, then each by itself."""
    yield layers
    if len(layers) > 1:
        yield from ((layer,) for layer in layers)


def _with_body(candidate: Candidate, body: str, title: str, minimal: tuple[str, ...]) -> Candidate:
    """The candidate with another text below its docstring."""
    text = tidied(body).replace(BARE, HEADER)
    return msgspec.structs.replace(candidate, script=f"{documented(title, candidate, minimal)}\n\n{text}")


def body_of(script: str) -> str:
    """What stands below the docstring."""
    return script.partition('"""\n\n')[2]
