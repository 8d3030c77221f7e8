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


def test_compiled_programs_whose_code_would_run_eager_under_a_mode(
    switch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from trueup_instrument.appliers.remedies import save_router_decision as remedy

    monkeypatch.delattr(TorchDispatchMode, "ignore_compile_internals", raising=False)
    monkeypatch.setattr(torch, "compile", lambda model: model)
    given: list[Any] = []

    def checkpoint(function: Any, use_reentrant: bool | None = None, context_fn: Any = print) -> None:
        given.append(context_fn)

    module: Any = SimpleNamespace(checkpoint=checkpoint, noop_context_fn=print)
    remedy._functions(switch, module, remedy._compiled(switch))
    module.checkpoint(len, use_reentrant=False)
    assert given.pop() is not print
    torch.compile(len)
    module.checkpoint(len, use_reentrant=False)
    assert given.pop() is print
    assert refusals(tmp_path) == [remedy.STAYS_EAGER]


@pytest.mark.parametrize("first", ["0", "min"])
def test_rows_that_begin_within_a_document_are_given_no_boundaries(
    switch: Any, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Releases of transformers have documents begin at position 0, or at the smallest one."""
    import torch
    from trueup_instrument.bridging import rows

    def prepare(ids: torch.Tensor) -> Any:
        begins = (ids.view(-1) == (0 if first == "0" else ids.min())).nonzero().view(-1)
        starts = torch.cat((begins, torch.tensor([ids.numel()])))
        return (starts, starts), (int(ids.max()) + 1,) * 2

    monkeypatch.setitem(sys.modules, rows.FLASH, SimpleNamespace(prepare_fa_kwargs_from_position_ids=prepare))
    assert rows.boundaries(torch.tensor([[0, 1, 2, 0, 1]]))["cu_seq_lens_q"].tolist() == [0, 3, 5]
    assert rows.boundaries(torch.tensor([[3, 4, 0, 1, 2]])) == {}
    assert bool(rows.boundaries(torch.tensor([[2, 3, 4]]))) == (first == "min")
