"""Each switch on a job of plain torch: its layer is switched, the others are as they were."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from switched_jobs import JOBS, Switch

from trueup.schema.record import Record, record_from_json

JOB = "plain_torch.py"
AS_IS = {"compile": (3, 3), "attention": {"sdpa-flash-cpu"}, "checkpointing": 1.0, "precision": "bfloat16"}
KEPT = {
    "wrapped": ["CheckpointWrapper"] * 3,
    "is wrapper": True,
    "compiled call kept": True,
    "_orig_mod": "Head",
}
IN_HALF = {"parameters": "torch.bfloat16", "layer made in half": "torch.bfloat16", "fed": "torch.bfloat16"}


def seen(record: Record) -> dict[str, Any]:
    """What was observed of each layer, in one word."""
    actual = record.actual
    matmul = actual.precision.matmul
    return {
        "compile": (actual.compile.blocks.compiled, actual.compile.blocks.total),
        "attention": {kernel.name for kernel in actual.attention.kernels},
        "checkpointing": actual.checkpointing.fraction,
        "precision": max(matmul, key=lambda dtype: matmul[dtype]),
    }


def test_without_a_switch_everything_is_as_the_job_asks_and_no_applier_is_loaded(switch: Switch) -> None:
    run = switch(JOB)
    assert seen(run.record) == AS_IS
    assert run.printed.items() >= {**KEPT, **IN_HALF, "matmul precision": "high", "scale": 4.0, "forwards": 4}.items()
    assert run.record.actual.compile.graphs == 2
    assert run.printed["appliers"] == ["switch"]
    assert run.switched_layers() == set()


def test_compile_off_leaves_the_compiled_objects_and_compiles_nothing(switch: Switch) -> None:
    run = switch(JOB, compile="off")
    assert seen(run.record) == {**AS_IS, "compile": (0, 3)}
    assert (run.record.actual.compile.graphs, run.record.actual.compile.frames) == (0, 0)
    assert run.printed.items() >= {**KEPT, **IN_HALF, "forwards": 4}.items()
    assert run.details("compile") == {("aot_eager", "runs eager"), ("eager", "runs eager")}
    assert run.switched_layers() == {"compile"}
    assert run.record.notes == ()


def test_compile_eager_replaces_the_backend_also_under_stances_of_the_program(switch: Switch) -> None:
    run = switch(JOB, compile="eager")
    assert seen(run.record) == AS_IS
    assert run.record.actual.compile.graphs == 3  # one more: the program's stance force_eager does not hold
    assert run.printed.items() >= {**KEPT, **IN_HALF}.items()
    assert run.details("compile") == {
        (None, "backend aot_eager replaced by eager"),
        (None, "backend is eager as it was"),
    }
    assert run.switched_layers() == {"compile"}


def test_attention_math_overrules_the_kernels_that_the_program_names(switch: Switch) -> None:
    run = switch(JOB, attention="math")
    # Backends of the compiler take the math kernel to pieces: what is seen of it is its softmax.
    assert seen(run.record) == {**AS_IS, "attention": {"eager"}}
    toggles = run.record.actual.attention.toggles
    assert {name for name, enabled in toggles.items() if enabled} == {"math"}
    assert run.printed.items() >= {**KEPT, **IN_HALF, "forwards": 4}.items()
    assert ("torch.backends.cuda", "flash kernel disabled") in run.details("attention")
    assert (None, "flash kernel kept disabled") in run.details("attention")
    assert run.switched_layers() == {"attention"}


def test_checkpointing_off_recomputes_nothing_in_graphs_and_outside(switch: Switch) -> None:
    run = switch(JOB, checkpointing="off")
    assert seen(run.record) == {**AS_IS, "checkpointing": 0.0}
    assert run.record.actual.compile.checkpoints_in_graph == 0
    assert run.printed.items() >= {**KEPT, **IN_HALF, "forwards": 2}.items()
    assert {change for _, change in run.details("checkpointing")} == {
        "is traced as a straight call",
        "calls the function straight",
        "hooks are idle",
    }
    assert run.switched_layers() == {"checkpointing"}


def test_precision_fp32_refuses_every_way_to_less_and_casts_of_inputs_with_it(switch: Switch) -> None:
    run = switch(JOB, precision="fp32")
    assert seen(run.record) == {**AS_IS, "precision": "float32"}
    precision = run.record.actual.precision
    assert (precision.matmul, precision.parameters) == ({"float32": 1.0}, {"float32": 1.0})
    assert run.printed.items() >= KEPT.items()
    assert {run.printed[name] for name in IN_HALF} == {"torch.float32"}
    assert (run.printed["matmul precision"], run.printed["scale"]) == ("highest", 1.0)
    assert run.details("precision") >= {
        ("autocast", "autocast disabled"),
        ("GradScaler", "GradScaler disabled"),
        ("Model", "cast of the model refused"),
        (None, "cast of a tensor refused"),
    }
    assert run.switched_layers() == {"precision"}


def test_precision_fp64_makes_models_double_where_they_are_trained(switch: Switch) -> None:
    run = switch(JOB, precision="fp64", compile="off")
    precision = run.record.actual.precision
    assert (precision.matmul, precision.parameters) == ({"float64": 1.0}, {"float64": 1.0})
    plain = switch(JOB, precision="fp32", compile="off")
    assert run.record.steps.losses == pytest.approx(plain.record.steps.losses, rel=1e-4)
    assert run.record.steps.losses != plain.record.steps.losses
    assert precision.gradients == {"float64": 1.0}
    assert run.observers_off() == []


def test_a_switch_that_finds_nothing_says_so(switch: Switch) -> None:
    run = switch("nothing_to_switch.py", sharding="off", checkpointing="off")
    assert [note.what.partition(" was asked for and nothing")[0] for note in run.record.notes] == [
        "--set sharding=off",
        "--set checkpointing=off",
    ]


@pytest.mark.parametrize("wrong", ["compile=magic", "magic=off"])
def test_the_command_line_refuses_what_is_no_switch(tmp_path: Path, wrong: str) -> None:
    done = trueup_run("--set", wrong, "--", "true", cwd=tmp_path)
    assert done.returncode == 2
    assert "choose from" in done.stderr


def test_the_command_line_switches_several_layers_at_once(tmp_path: Path) -> None:
    settings = [word for layer in ("compile=off", "checkpointing=off", "precision=fp32") for word in ("--set", layer)]
    done = trueup_run(*settings, "--json", "record.json", "--", sys.executable, str(JOBS / JOB), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout).items() >= KEPT.items()
    record = record_from_json((tmp_path / "record.json").read_text())
    assert record.variant["layers"] == {"compile": "off", "checkpointing": "off", "precision": "fp32"}
    assert seen(record) == {**AS_IS, "compile": (0, 3), "checkpointing": 0.0, "precision": "float32"}


def trueup_run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trueup", "run", "--quiet", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
