"""The reduction: one file, constants, switches, small sizes, few statements; each step kept where it still fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    beginnings = _beginnings(sources, title, bisection.minimal, bisection.signature.kind in RAISED)
    start = next((each for each in beginnings if checks.fails(each)), None)
    if start is None:
        return [], "the job's script does not fail in the same way by itself"
    way = _WayDown(start, checks, title, bisection.minimal)
    try:
        way.switch()
        if not way.take(way.changed(small(way.body))):
            way.take(way.changed(small(way.body, COUNTS)))
        way.delete()
        way.take(msgspec.structs.replace(way.found[-1], alone=True))
    except OutOfBudget:
        pass
    return [*way.found[: -KEPT - 1 : -1], start], ""


class _WayDown:
    """The scripts that failed so far, the smallest last."""

    def __init__(self, start: Candidate, checks: Checked, title: str, minimal: tuple[str, ...]) -> None:
        self.found = [start]
        self._checks = checks
        self._title = title
        self._minimal = minimal

    @property
    def body(self) -> str:
        """Of the last one, below its docstring."""
        return self.found[-1].script.partition('"""\n\n')[2]

    def changed(self, body: str) -> Candidate:
        """The last one with another body."""
        return _with_body(self.found[-1], body, self._title, self._minimal)

    def take(self, after: Candidate) -> bool:
        """Go on from another script where that fails in the same way."""
        if after == self.found[-1] or not self._checks.fails(after):
            return False
        self.found.append(after)
        return True

    def switch(self) -> None:
        """Give it switches of its own, of as many layers as are seen to cure it then."""
        start, body = self.found[-1], self.body
        for layers in _subsets(self._minimal):
            switched = with_switches(body, layers)
            if not all(f'"{layer}" in off' in switched or f'"{layer}" not in off' in switched for layer in layers):
                continue
            left = tuple(layer for layer in self._minimal if layer not in layers)
            outside = msgspec.structs.replace(start, outside=left)
            after = _with_body(outside, switched, self._title, self._minimal)
            if self._checks.fails(after) and all(self._checks.passes(after, layer) for layer in self._minimal):
                self.found.append(after)
                return

    def delete(self) -> None:
        """Leave out what it does not need; a switch stays, since without its layer it would fail as well."""
        inside = [layer for layer in self._minimal if layer not in self.found[-1].outside]

        def does(body: str) -> bool:
            after = self.changed(body)
            return after == self.found[-1] or (all(f'"{each}"' in body for each in inside) and self.take(after))

        fewest_statements(self.body, does)


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
