"""An applier says so, and leaves the library alone, where a release has not what it changes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import trueup

BOOTSTRAP = Path(trueup.__file__).parent / "instrument" / "bootstrap"


@pytest.fixture
def switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A switch of a session that writes into `tmp_path`, as a process of an observed job has one."""
    monkeypatch.syspath_prepend(str(BOOTSTRAP))
    from trueup_instrument.appliers.switch import Switch
    from trueup_instrument.session import Session

    session = Session(str(tmp_path), "launcher")
    session.open()
    yield Switch(session, "remedy", True)
    for name in [name for name in sys.modules if name.partition(".")[0] == "trueup_instrument"]:
        monkeypatch.delitem(sys.modules, name)


def refusals(folder: Path) -> list[str]:
    (file,) = folder.glob("*.jsonl")
    events = [json.loads(line) for line in file.read_text().splitlines()]
    return [event["detail"]["cannot"] for event in events if event["kind"] == "applier"]


def test_fsdp2_without_its_passes(switch: Any, tmp_path: Path) -> None:
    from trueup_instrument.appliers.remedies import no_sync_while_accumulating as remedy

    class FSDPState:
        def _root_pre_forward(self) -> None:
            """As before, with no way to end a pass."""

    kept = FSDPState._root_pre_forward
    remedy._sharded(switch, SimpleNamespace(FSDPState=FSDPState), print)
    assert FSDPState._root_pre_forward is kept
    assert refusals(tmp_path) == ["this release of FSDP2 begins and ends a pass in another way"]


def test_fsdp2_that_registers_no_methods(switch: Any, tmp_path: Path) -> None:
    from trueup_instrument.appliers.remedies import register_forward_method as remedy

    module = SimpleNamespace(fully_shard=print)
    remedy._fsdp2(switch, module)
    assert module.fully_shard is print
    assert refusals(tmp_path) == ["this release of FSDP2 registers no methods"]


def test_a_library_without_a_lookup_of_layer_classes(switch: Any, tmp_path: Path) -> None:
    from trueup_instrument.appliers.remedies import existing_layer_class as remedy

    remedy._lookup(switch, SimpleNamespace(__name__="accelerate.utils.dataclasses"))
    assert refusals(tmp_path) == ["accelerate.utils.dataclasses looks for layer classes in another way"]


def test_modules_that_cannot_be_called_in_another_way(switch: Any, tmp_path: Path) -> None:
    from trueup_instrument.appliers.remedies import call_the_wrapper as remedy

    wrapper = SimpleNamespace(module=SimpleNamespace())
    remedy._route(switch, wrapper, [])
    assert vars(wrapper.module) == {}
    assert refusals(tmp_path) == ["modules of this torch cannot be called in another way"]
