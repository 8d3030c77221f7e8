"""Scripts written from records: what they apply, in which order, and that they are small and clean."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from recorded_jobs import (
    AUTOCAST,
    BACKWARD,
    DDP,
    EACH,
    ERROR,
    FSDP1,
    HUGGING_FACE,
    LORA,
    SHARD_BLOCK,
    SHARD_ROOT,
    SWITCH,
    WHOLE,
    WRAPPER,
    Judged,
    bisection,
    job,
)

from trueup.procedures.reproduction.budget import repeats
from trueup.procedures.reproduction.candidate import LINES, Candidate, Sources
from trueup.procedures.reproduction.reading import recipes
from trueup.procedures.reproduction.reproduce import reproduce
from trueup.procedures.reproduction.simplifying import lean
from trueup.procedures.reproduction.writing import candidate
from trueup.schema.bisection import Signature
from trueup.schema.record import Record

SOURCES = Sources(command=("python", "train.py"))
JOBS: dict[str, tuple[Record, tuple[str, ...]]] = {
    "compile, then FSDP2": (job(WHOLE, SHARD_BLOCK, SHARD_ROOT, ranks=2), ("compile", "sharding")),
    "FSDP2, then compile": (job(SHARD_BLOCK, SHARD_ROOT, WHOLE, ranks=2), ("compile", "sharding")),
    "checkpoints in compiled blocks": (job(WRAPPER, EACH, breaks=("builtin print",)), ("checkpointing", "compile")),
    "checkpoints in a forward": (job(WHOLE, breaks=("Tensor.item()",)), ("checkpointing", "compile")),
    "LoRA in FSDP1": (job(LORA, FSDP1, ranks=2), ("adapter", "sharding")),
    "LoRA and more in DDP": (job(HUGGING_FACE, LORA, DDP, ranks=2, trainable=9), ("adapter", "sharding")),
    "LoRA and checkpoints": (job(HUGGING_FACE, LORA, SWITCH), ("adapter", "checkpointing")),
    "compiled backward of FSDP2": (job(SHARD_BLOCK, SHARD_ROOT, BACKWARD, ranks=2), ("compile", "sharding")),
    "autocast and attention": (job(HUGGING_FACE, AUTOCAST), ("attention", "precision")),
}
COMPILED = ("compile, then FSDP2", "FSDP2, then compile", "checkpoints in compiled blocks", "checkpoints in a forward")
SIGNATURES = {
    "exception": ERROR,
    "eager": Signature(kind="coverage", text="lost", layer="compile", threshold=0.9),
    "hooks": Signature(kind="finding", text="ran eager", rule="compile/fsdp2-hooks-inside-compiled-module"),
    "gathers": Signature(kind="finding", text="gathers", rule="checkpointing/fsdp-redundant-all-gather"),
    "reduced": Signature(kind="finding", text="no gradient", rule="sharding/gradients-not-reduced"),
    "gradients": Signature(kind="finding", text="no gradient", rule="adapter/adapters-not-trained"),
    "recompiles": Signature(kind="finding", text="recompiles", rule="compile/recompile-per-layer-attribute"),
    "not finite": Signature(kind="not finite", text="the loss is not finite"),
    "loss": Signature(kind="loss", text="another loss", threshold=0.01),
    "slow": Signature(kind="slow", text="slower", threshold=2.0),
    "hang": Signature(kind="hang", text="hangs"),
}


def scripts() -> dict[str, str]:
    return {
        f"{name}, {kind}, {number}": candidate(each, "It fails.").script
        for name, (record, minimal) in JOBS.items()
        for kind, signature in SIGNATURES.items()
        for number, recipe in enumerate(recipes(record, minimal, signature))
        for each in (recipe, lean(recipe))
    }


def first(name: str, kind: str = "exception") -> str:
    record, minimal = JOBS[name]
    return candidate(lean(next(recipes(record, minimal, SIGNATURES[kind]))), "It fails.").script


def test_every_script_is_clean_and_formatted(tmp_path: Path) -> None:
    for number, text in enumerate(scripts().values()):
        (tmp_path / f"script_{number}.py").write_text(text)
    (tmp_path / "ruff.toml").write_text('line-length = 120\n[lint]\nselect = ["E", "F", "I", "UP", "B", "SIM"]\n')
    for command in (["check", "--no-cache"], ["format", "--diff", "--no-cache"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "."], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


def test_lean_scripts_are_short_enough() -> None:
    for name, (record, minimal) in JOBS.items():
        for kind in ("exception", "hang", *(["eager", "hooks"] if name in COMPILED else [])):
            for recipe in recipes(record, minimal, SIGNATURES[kind]):
                text = candidate(lean(recipe), "It fails.").script
                assert len(text.splitlines()) < LINES, f"{name}, {kind}:\n{text}"


def test_layers_stand_in_the_observed_order() -> None:
    before, after = first("compile, then FSDP2"), first("FSDP2, then compile")
    assert before.index("model.compile(") < before.index("fully_shard(model")
    assert after.index("model.compile(") > after.index("fully_shard(model")
    inside = first("checkpoints in compiled blocks")
    assert inside.index("checkpoint_wrapper(block") < inside.index("torch.compile(block")


def test_observed_settings_are_taken_over() -> None:
    sharded = first("compile, then FSDP2")
    assert 'backend="aot_eager"' in sharded
    assert "fully_shard(block, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))" in sharded
    assert "use_orig_params=True" in first("LoRA in FSDP1")
    assert "CheckpointImpl.REENTRANT" in first("checkpoints in compiled blocks")
    assert "torch.compile(block)" in first("checkpoints in compiled blocks")
    assert 'torch.autocast("cpu", torch.bfloat16, enabled="precision" not in off)' in first("autocast and attention")


def test_what_broke_a_graph_breaks_it_again() -> None:
    assert "print(x.shape)" in first("checkpoints in compiled blocks")
    assert ".item()" in first("checkpoints in a forward")


def test_a_silent_fault_ends_with_an_assertion() -> None:
    for kind in ("hooks", "gathers", "reduced", "gradients", "recompiles", "not finite", "loss", "slow"):
        record, minimal = JOBS["LoRA and checkpoints"]
        tree = ast.parse(candidate(next(recipes(record, minimal, SIGNATURES[kind])), "It fails.").script)
        assert any(isinstance(node, ast.Assert) for node in ast.walk(tree)), kind


def test_a_first_loss_that_is_not_finite_has_no_optimizer_step_before_it() -> None:
    """Else the script may fail by an optimizer that the job does not have."""
    record, minimal = JOBS["autocast and attention"]
    for seen, steps in (((1, 2), 1), ((4, 5), 3)):
        shown = msgspec.structs.replace(record, steps=msgspec.structs.replace(record.steps, not_finite=seen))
        every = [each.iterations for each in recipes(shown, minimal, SIGNATURES["not finite"])]
        assert every == [steps] * len(every) != []


def test_only_distributed_scripts_are_launched_as_such() -> None:
    record, minimal = JOBS["compile, then FSDP2"]
    assert candidate(next(recipes(record, minimal, ERROR)), "x").launch[:3] == ("torchrun", "--nproc-per-node", "2")
    record, minimal = JOBS["checkpoints in a forward"]
    assert candidate(next(recipes(record, minimal, ERROR)), "x").launch == ("python", "repro.py")


def test_the_smallest_that_fails_is_given_with_every_command() -> None:
    record, minimal = JOBS["compile, then FSDP2"]
    checks = Judged(lambda each: "fully_shard(block" in each.script and "Block(), Block()" in each.script)
    found, why = reproduce(bisection(record, *minimal), SOURCES, checks)
    assert found is not None, why
    assert "optimizer" not in found.script
    assert "Block(), Block()" in found.script
    assert "range(1)" in found.script
    assert found.launch == "python repro.py"
    assert found.without == {layer: f"python repro.py --without {layer}" for layer in ("compile", "sharding")}


def test_another_failure_is_no_reproduction() -> None:
    class Otherwise(Judged):
        def observed(self, each: Candidate) -> tuple[str, str]:  # type: ignore[override]
            return "unresolved", "ImportError"

    record, minimal = JOBS["LoRA and checkpoints"]
    found, why = reproduce(bisection(record, *minimal), SOURCES, Otherwise(lambda each: True))
    assert found is None
    assert "ImportError" in why


def test_a_fault_that_a_layer_does_not_cure_is_no_reproduction() -> None:
    class Stubborn(Judged):
        def observed(self, each: Candidate) -> tuple[str, str]:  # type: ignore[override]
            return ("passes", "ended well") if "compile" in each.launch else ("fails", "as asked")

        plain = observed  # type: ignore[assignment]

    record, minimal = JOBS["compile, then FSDP2"]
    found, why = reproduce(bisection(record, *minimal), SOURCES, Stubborn(lambda each: True))
    assert found is None
    assert "not well without sharding" in why


def test_a_fault_that_comes_and_goes_is_asked_for_more_than_once() -> None:
    class Sometimes(Judged):
        def observed(self, each: Candidate) -> tuple[str, str]:  # type: ignore[override]
            outcome, why = super().observed(each)
            return ("passes", "this time") if outcome == "fails" and len(self.seen) % 2 else (outcome, why)

        plain = observed  # type: ignore[assignment]

    record, minimal = JOBS["compile, then FSDP2"]
    found = msgspec.structs.replace(bisection(record, *minimal), rate=0.5)
    assert reproduce(found, SOURCES, Sometimes(lambda each: True))[0] is not None
    assert [repeats(rate) for rate in (1.0, 0.9, 0.5, 0.1)] == [1, 2, 5, 6]


def test_nothing_is_run_twice_and_no_more_than_the_budget() -> None:
    record, minimal = JOBS["LoRA in FSDP1"]
    checks = Judged(lambda each: "clip_grad_norm_" in each.script)
    reproduce(bisection(record, *minimal), SOURCES, checks)
    assert len(checks.seen) <= 2 * len(set(checks.seen))  # once observed, once plain
    checks = Judged(lambda each: True)
    assert reproduce(bisection(record, *minimal), SOURCES, checks, budget=0.0)[0] is None
    assert not checks.seen


@pytest.mark.parametrize("minimal", [(), ("compile",)])
def test_no_set_or_no_signature_gives_the_reason(minimal: tuple[str, ...]) -> None:
    empty = bisection(job(WHOLE), *minimal, signature=None)  # type: ignore[arg-type]
    found, why = reproduce(empty, SOURCES, Judged(lambda each: True))
    assert found is None
    assert why
