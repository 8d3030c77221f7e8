"""The bridges around libraries: flash-attn over its own code; others over functions of their recorded signatures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

JOB = Path(__file__).with_name("jobs") / "bridged_flash_attn.py"
ENTRIES = ["_flash_attn_forward", "_flash_attn_varlen_forward", "_flash_attn_backward", "_flash_attn_varlen_backward"]


@pytest.mark.network
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", ["2.6.3", pytest.param("2.5.9.post1", marks=pytest.mark.slow)])
def test_flash_attn_in_graphs_computes_what_its_own_functions_compute(version: str, flash_attn_packages: Any) -> None:
    environment = {**os.environ, "PYTHONPATH": str(flash_attn_packages(version)), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-W", "ignore", str(JOB)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=800, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["version"] == version
    assert told["bridged"] == {"flash_attn.flash_attn_interface": ENTRIES}
    assert told["again"] == {"flash_attn.flash_attn_interface": []}
    assert (told["eager"], told["graphs"], told["inductor"]) == ([], [], True)
    assert set(map(tuple, told["opcheck"].values())) == {("SUCCESS",)}
    assert told["runs"] == {"eager": [1, 2], "graphs": [1, 2]}


@pytest.mark.parametrize("name", ["flash_attention_3", "flash_attention_4", "xformers"])
def test_other_libraries_by_their_recorded_signatures(name: str) -> None:
    """The graph breaks at the entry point before, and holds one operator afterwards, with the same results."""
    import opaque
    import recorded_kernels
    import torch

    from trueup.instrument import inside

    inside.make_importable()
    from trueup_instrument.bridging import libraries

    module = getattr(recorded_kernels, name)()

    def results(compiled: bool) -> list[torch.Tensor]:
        torch._dynamo.reset()
        given = opaque.inputs()

        def attention(q: Any, k: Any, v: Any) -> Any:
            return module.attention(q * 1, k, v) * 2

        call = torch.compile(attention, backend="aot_eager", fullgraph=True) if compiled else attention
        out = call(*given)
        out.float().square().sum().backward()
        return [out.detach(), *(each.grad for each in given)]

    expected = results(compiled=False)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        results(compiled=True)
    done, why = libraries.LIBRARIES[module.__name__](torch, module)
    assert (bool(done), why) == (True, "")
    for compiled in (False, True):
        found = results(compiled)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True)), compiled
    assert libraries.LIBRARIES[module.__name__](torch, module) == ([], "")


def test_a_library_of_another_kind_is_left_as_it_is_and_said() -> None:
    import types

    import torch

    from trueup.instrument import inside

    inside.make_importable()
    from trueup_instrument.bridging import flash_attention_2

    def _flash_attn_forward(q, k, v, dropout_p, softmax_scale, causal, return_softmax, novelty): ...

    def _flash_attn_varlen_forward(q, k, v): ...

    def _flash_attn_backward(dout): ...

    def _flash_attn_varlen_backward(dout): ...

    module = types.ModuleType("flash_attn.flash_attn_interface")
    vars(module).update({name: each for name, each in locals().items() if name.startswith("_flash")})
    done, why = flash_attention_2.install(torch, module)
    assert done == []
    assert "_flash_attn_forward has novelty, which is not known" in why
    assert module._flash_attn_forward is _flash_attn_forward
