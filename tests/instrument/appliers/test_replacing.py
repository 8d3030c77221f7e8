"""A replaced function stays what it was for those who call it, also when its applier fails."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trueup

BOOTSTRAP = Path(trueup.__file__).parent / "instrument" / "bootstrap"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A switch of a session that writes into `tmp_path`, as a process of an observed job has one."""
    monkeypatch.syspath_prepend(str(BOOTSTRAP))
    from trueup_instrument.appliers.switch import Switch
    from trueup_instrument.session import Session

    session = Session(str(tmp_path), "launcher")
    session.open()
    yield Switch(session, "compile", "off")
    for name in [name for name in sys.modules if name.partition(".")[0] == "trueup_instrument"]:
        monkeypatch.delitem(sys.modules, name)


def told(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.glob("*.jsonl")
    return [event for line in file.read_text().splitlines() if (event := json.loads(line))["kind"] == "applier"]


class Library:
    def scale(self, value: int, by: int = 2, *, plus: int = 0) -> int:
        """Scales."""
        return value * by + plus

    @classmethod
    def named(cls, name: str = "x") -> str:
        return f"{cls.__name__}.{name}"

    scale.registered = True  # type: ignore[attr-defined]
    scale._torchdynamo_disable = True  # type: ignore[attr-defined]


@pytest.fixture
def library() -> Any:
    return type("Library", (), dict(vars(Library)))


def test_arguments_are_changed_by_name_however_they_are_given(made: Any, library: Any) -> None:
    from trueup_instrument.appliers.replacing import change_arguments

    assert change_arguments(made, library, "scale", lambda arguments: arguments.update(by=10))
    assert [library().scale(1), library().scale(1, 5), library().scale(value=1, plus=1)] == [10, 10, 11]
    change_arguments(made, library, "named", lambda arguments: arguments.update(name=arguments["name"] * 2))
    assert (library.named(), library().named("y")) == ("Library.xx", "Library.yy")


def test_signature_attributes_and_errors_are_those_of_the_original(made: Any, library: Any) -> None:
    from trueup_instrument.appliers.replacing import change_arguments

    before = inspect.signature(library.scale)
    change_arguments(made, library, "scale", lambda arguments: None)
    assert inspect.signature(library.scale) == before
    assert (library.scale.__name__, library.scale.__doc__, library.scale.registered) == ("scale", "Scales.", True)
    assert not hasattr(library.scale, "_torchdynamo_disable")
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'"):
        library().scale(1, wrong=2)


def test_an_applier_that_fails_leaves_the_call_alone_and_says_so_once(made: Any, library: Any, tmp_path: Path) -> None:
    from trueup_instrument.appliers.replacing import change_arguments

    def fail(arguments: dict[str, Any]) -> None:
        arguments["by"] = 100
        raise KeyError("gone")

    change_arguments(made, library, "scale", fail)
    assert [library().scale(1), library().scale(2)] == [2, 4]
    (event,) = told(tmp_path)
    assert (event["applier"], event["detail"]["value"]) == ("compile", "off")
    assert event["detail"]["cannot"] == "KeyError: 'gone'"


def test_a_missing_function_is_not_invented(made: Any, library: Any) -> None:
    from trueup_instrument.appliers.replacing import change_arguments

    assert not change_arguments(made, library, "other", lambda arguments: None)
    assert not hasattr(library, "other")


def test_each_change_is_told_once_for_each_module(made: Any, tmp_path: Path) -> None:
    for module in ("A", "B", "A"):
        made.changed("runs eager", module)
    assert [event["module"] for event in told(tmp_path)] == ["A", "B"]
