"""flash_attention_2 of Hugging Face models under torch.compile, over flash-attn's own code: one graph, remedied.

The table is that of the issue: kinds of input, by a model compiled whole, by its blocks, and by its blocks as whole
graphs. Without the remedies it breaks at the opaque kernel, at what it reads of masks and positions, and at the number
of each layer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trueup.runs.injection import inject
from trueup.schema.variant import Variant

pytestmark = [pytest.mark.network, pytest.mark.timeout(900)]
JOB = Path(__file__).with_name("jobs") / "one_graph.py"
KINDS = ("plain", "ones", "right", "left", "holes", "packed", "single", "explicit", "autocast")
"""Two rows without a mask, with one of ones, padded on either side or with holes; one row of two documents, of one, and
of two with their boundaries given; and two rows of a float32 model under autocast, whose queries are float32."""
MODES = ("whole", "blocks", "full")
REMEDIES = ("bridge-attention", "attention-without-layer-index", "read-boundaries-once")
LAYERS = 12
"""More than Dynamo makes graphs of one function."""


def run(packages: Path, folder: Path, remedies: tuple[str, ...], kinds: Any, modes: Any, *, backend: str = "eager",
        layers: int = LAYERS) -> dict[tuple[str, str], dict[str, Any]]:  # fmt: skip
    """(kind, mode) → cell of one process."""
    base = {**os.environ, "PYTHONPATH": str(packages), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-W", "ignore", str(JOB), str(layers), backend, ",".join(kinds), ",".join(modes)]
    with inject(base, events=folder, variant=Variant(remedies=remedies)) as injection:
        done = subprocess.run(line, env=injection.environment, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return {(cell["kind"], cell["mode"]): cell for cell in json.loads(done.stdout.splitlines()[-1])}


@pytest.fixture(scope="module")
def eager(flash_attn_packages: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, Any]]:
    """What the models compute without trueup and without torch.compile."""
    return run(flash_attn_packages("2.6.3"), tmp_path_factory.mktemp("eager"), (), KINDS, ["eager"])


def one_graph(cells: dict[tuple[str, str], dict[str, Any]], eager: dict[tuple[str, str], dict[str, Any]]) -> None:
    for (kind, mode), cell in cells.items():
        assert (cell["error"], cell["graphs"], cell["breaks"], cell["limits"]) == ("", 1, 0, 0), (kind, mode, cell)
        assert cell["digest"] == eager[kind, "eager"]["digest"], (kind, mode)


def test_inputs_of_each_kind_make_one_graph_with_the_remedies(flash_attn_packages: Any, tmp_path: Path) -> None:
    """... and the same logits and gradients, bit by bit: the table of all is for `make gauntlet`."""
    kinds, packages = ("plain", "holes", "packed", "autocast"), flash_attn_packages("2.6.3")
    expected = run(packages, tmp_path / "eager", (), kinds, ["eager"])
    one_graph(run(packages, tmp_path / "remedied", REMEDIES, kinds, ["full"]), expected)


@pytest.mark.slow
def test_every_input_makes_one_graph_with_the_remedies(
    flash_attn_packages: Any, tmp_path: Path, eager: dict[tuple[str, str], dict[str, Any]]
) -> None:
    cells = run(flash_attn_packages("2.6.3"), tmp_path, REMEDIES, KINDS, MODES)
    assert len(cells) == len(KINDS) * len(MODES)
    one_graph(cells, eager)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.5.9.post1", "2.7.4.post1", "2.8.3"])
def test_other_versions_make_one_graph_with_the_remedies(
    version: str, flash_attn_packages: Any, tmp_path: Path, eager: dict[tuple[str, str], dict[str, Any]]
) -> None:
    one_graph(run(flash_attn_packages(version), tmp_path, REMEDIES, KINDS, MODES), eager)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.6.3", "2.8.3"])
def test_no_input_makes_one_graph_without_the_remedies(version: str, flash_attn_packages: Any, tmp_path: Path) -> None:
    """Rows without a mask, or with given boundaries, do so once flash-attn registers operators: but not by blocks."""
    cells = run(flash_attn_packages(version), tmp_path, (), KINDS, MODES)
    whole = {kind for kind in KINDS if (cells[kind, "whole"]["graphs"], cells[kind, "whole"]["breaks"]) == (1, 0)}
    assert whole == (set() if version == "2.6.3" else {"plain"})
    for kind in KINDS:
        assert cells[kind, "full"]["error"], kind
        assert cells[kind, "blocks"]["graphs"] >= 8, kind


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_backwards_compute_the_same(backend: str, flash_attn_packages: Any, tmp_path: Path) -> None:
    kinds, packages = ("plain", "holes", "packed"), flash_attn_packages("2.6.3")
    cells = run(packages, tmp_path, REMEDIES, kinds, ("full",), backend=backend, layers=2)
    expected = run(packages, tmp_path / "eager", (), kinds, ("eager",), layers=2)
    assert [cell["graphs"] for cell in cells.values()] == [1, 1, 1]
    if backend == "aot_eager":  # inductor rounds to bf16 less often
        one_graph(cells, expected)
