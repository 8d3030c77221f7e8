"""The algorithm of `verify` over runs that are known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest
from records import LOSSES, record

from trueup.procedures.speed import effect
from trueup.procedures.verify import LAYERS_OFF, in_precision, verify
from trueup.schema.fixing import Speed
from trueup.schema.record import (
    Actual,
    Attention,
    Checkpointing,
    Compile,
    Drift,
    Kernel,
    Memory,
    Note,
    Precision,
    Rank,
    Record,
)
from trueup.schema.variant import Variant
from trueup.schema.verification import Verification

WRONG = [loss * 1.01 for loss in LOSSES]
Job = Callable[[Variant], Record]


def off(factor: float, losses: Sequence[float] = LOSSES) -> list[float]:
    return [loss * (1 + factor) for loss in losses]


def ran(losses: Sequence[float | None] = LOSSES, dtype: str = "float32", **options: object) -> Record:
    """A run with nothing optional on."""
    actual = Actual(
        compile=Compile(fraction=0.0),
        attention=Attention(kernels=(Kernel(name="sdpa-math", calls=2, share=1.0),), fused_fraction=0.0),
        checkpointing=Checkpointing(fraction=0.0),
        precision=Precision(matmul={dtype: 1.0}, parameters={"float32": 1.0}),
    )
    made = record(losses=losses, **options)  # type: ignore[arg-type]
    return msgspec.structs.replace(made, actual=actual, ranks=(Rank(rank=0),))


def with_actual(made: Record, **parts: object) -> Record:
    return msgspec.structs.replace(made, actual=msgspec.structs.replace(made.actual, **parts))


def compiled(made: Record) -> Record:
    return with_actual(made, compile=Compile(fraction=1.0, graphs=4))


def drifting(made: Record, *changes: float) -> Record:
    drifts = (
        Drift(step=1, rank=0, changes=changes),
        Drift(step=2, rank=0, changes=tuple(2 * each for each in changes)),
    )
    return msgspec.structs.replace(made, steps=msgspec.structs.replace(made.steps, drifts=drifts))


def verified(job: Job, candidate: Variant = Variant(), control: Variant = LAYERS_OFF, pairs: int = 2) -> Verification:  # noqa: B008
    return verify(job, control, candidate, pairs)


def is_control(variant: Variant) -> bool:
    return variant.layers.get("compile") == "off"


def sides(control: Record, candidate: Record) -> Job:
    return lambda variant: control if is_control(variant) else candidate


def test_pairs_are_interleaved_and_each_has_its_turn_first() -> None:
    made: list[str] = []

    def job(variant: Variant) -> Record:
        made.append("A" if is_control(variant) else "B")
        return ran()

    verified(job, pairs=3)
    assert "".join(made) == "ABBAAB"


def test_the_same_losses_are_verified() -> None:
    told = verified(sides(ran(), compiled(ran())))
    assert (told.verdict, told.numerics.verdict, told.why) == ("verified", "equal", "same losses")
    assert [(layer.layer, layer.state, layer.on_in_candidate) for layer in told.switched] == [
        ("compile", "as asked", True),
        ("attention", "as asked", False),
        ("checkpointing", "as asked", False),
    ]
    assert told.notes == ()


@pytest.mark.parametrize(("dtype", "factor", "verdict"), [
    ("float32", 5e-5, "verified"),
    ("float32", 1e-3, "different"),
    ("bfloat16", 1e-3, "verified"),
    ("bfloat16", 5e-3, "different"),
])  # fmt: skip
def test_a_difference_may_be_rounding_of_the_dtype(dtype: str, factor: float, verdict: str) -> None:
    told = verified(sides(ran(), ran(off(factor), dtype)))
    assert told.verdict == verdict
    assert told.numerics.dtype == dtype


def test_what_differs_is_told_with_its_first_step() -> None:
    told = verified(sides(ran(norms=[1.0] * 8), ran([*LOSSES[:4], *WRONG[4:]], norms=[1.0, 2.0, *[1.0] * 6])))
    assert told.verdict == "different"
    assert "gradient norm first at step 2, loss first at step 5" in told.why
    assert [step.step for step in told.numerics.steps if step.beyond] == [2, 5, 6, 7, 8]


def test_parameters_that_do_not_move_are_a_difference_though_losses_agree() -> None:
    still = verified(sides(drifting(ran(), 1e-3, 2e-3), drifting(ran(), 0.0, 0.0)))
    assert still.verdict == "different"
    assert "drift of the parameters first at step 1" in still.why
    near = verified(sides(drifting(ran(), 1e-3, 2e-3), drifting(ran(), 1.02e-3, 2e-3)))
    assert near.verdict == "verified"


def test_drift_of_other_shards_and_of_low_parameters_is_not_compared() -> None:
    moved, still = drifting(ran(), 1e-3, 2e-3), drifting(ran(), 0.0, 0.0)
    assert verified(sides(moved, drifting(ran(), 0.0))).verdict == "verified"
    low = Precision(matmul={"bfloat16": 1.0}, parameters={"bfloat16": 1.0})
    assert verified(sides(with_actual(moved, precision=low), with_actual(still, precision=low))).verdict == "verified"


def noisy_job(*factors: float) -> Job:
    left = iter(factors)
    return lambda variant: ran(off(next(left)))


def test_a_job_without_seeds_is_within_its_own_noise() -> None:
    told = verified(noisy_job(0.02, -0.01, 0.03, -0.03))
    assert (told.verdict, told.numerics.verdict) == ("within noise", "within noise")
    assert verified(noisy_job(0.0, 0.3, 0.3, 0.01, 0.0)).verdict == "different"


def test_noise_that_grows_excuses_no_difference_before_it() -> None:
    again = [*LOSSES[:6], *off(0.01, LOSSES[6:])]
    runs = {
        "control": iter([ran(), ran(again), ran(dtype="float64")]),
        "candidate": iter([ran(off(3e-3)), ran(off(3e-3))]),
    }
    told = verified(lambda variant: next(runs["control" if is_control(variant) else "candidate"]))
    assert told.verdict == "different"
    assert [step.step for step in told.numerics.steps if step.beyond] == [1, 2, 3, 4, 5, 6]


def referring(control: Record, candidate: Record, reference: Record) -> Job:
    def job(variant: Variant) -> Record:
        if "precision" in variant.layers:
            return reference
        return control if is_control(variant) else candidate

    return job


def test_the_reference_says_which_of_two_is_right() -> None:
    control, exact = ran(off(8e-3), "bfloat16"), ran()
    good = verified(referring(control, ran(off(-1e-3), "bfloat16"), exact))
    assert (good.verdict, good.numerics.verdict, good.numerics.closer) == ("verified", "within rounding", "candidate")
    assert good.reference == "compile=off, attention=math, checkpointing=off, precision=fp32"
    bad = verified(referring(ran(LOSSES, "bfloat16"), ran(off(2e-2), "bfloat16"), exact))
    assert (bad.verdict, bad.numerics.closer) == ("different", "control")
    assert bad.why.endswith("the control is closer to the reference")


def test_a_reference_that_is_not_in_full_precision_decides_nothing() -> None:
    low = ran(LOSSES, "bfloat16")
    told = verified(referring(ran(off(8e-3), "bfloat16"), low, low))
    assert (told.verdict, told.numerics.closer) == ("different", None)
    assert "it decides nothing" in told.notes[-1]


def test_float64_decides_about_what_float32_amplifies() -> None:
    """Both leave the reference at the same pace, as rounding does that the training amplifies."""
    control, candidate = ([loss * (1 + s * 1e-5 * 4**n) for n, loss in enumerate(LOSSES)] for s in (1, -1))
    right = verified(referring(ran(control), ran(candidate), ran(dtype="float64")))
    assert (right.verdict, right.numerics.closer) == ("verified", "neither")
    assert right.reference == f"{LAYERS_OFF.name}, precision=fp64"
    wrong = verified(referring(ran(), ran(WRONG), ran(dtype="float64")))
    assert (wrong.verdict, wrong.numerics.closer) == ("different", "control")
    partly = verified(referring(ran(control), ran(candidate), ran()))
    assert partly.verdict == "different"
    assert partly.notes[-1] == "the reference fails, or is not in fp64 throughout: it decides nothing"


def test_no_reference_is_run_where_the_control_is_one() -> None:
    told = verified(referring(ran(), ran(off(2e-2), "bfloat16"), ran()), control=in_precision(LAYERS_OFF, "fp32"))
    assert (told.verdict, told.references) == ("different", ())


def dropping(control_draws: int | None, alike: Record) -> tuple[Job, list[str]]:
    """A job whose candidate is compiled, and computes `alike` with the random numbers of eager code."""
    made: list[str] = []
    control = with_actual(ran(), checkpointing=Checkpointing(fraction=0.0, random_ops=control_draws))

    def job(variant: Variant) -> Record:
        made.append(variant.name)
        if variant.environment:
            return compiled(alike)
        return control if is_control(variant) else compiled(ran(off(0.05)))

    return job, made


def test_compiled_dropout_is_compared_with_the_random_numbers_of_eager_code() -> None:
    job, made = dropping(4, ran())
    told = verified(job)
    assert (told.verdict, made[-1]) == ("verified", "as is, random numbers of eager code")
    assert "draws random numbers of its own" in told.notes[0]
    assert told.numerics.steps[0].candidate == LOSSES[0]
    assert verified(dropping(4, ran(WRONG))[0]).verdict == "different"
    job, made = dropping(0, ran())
    assert (verified(job).verdict, made[4:]) == ("different", [f"{LAYERS_OFF.name}, precision=fp64"])


def test_dropout_within_attention_is_compared_between_the_same_kernels_only() -> None:
    def attending(kernel: str, *losses: float) -> Record:
        kernels = (Kernel(name=kernel, calls=2, share=1.0),)
        attention = Attention(kernels=kernels, fused_fraction=0.0, sdpa_calls={"no mask causal dropout": 2})
        return with_actual(ran(losses), attention=attention)

    told = verified(sides(attending("sdpa-math", *LOSSES), attending("sdpa-flash", *WRONG)))
    assert (told.verdict, told.why[:23]) == ("not compared", "attention drops scores ")
    told = verified(sides(attending("sdpa-flash", *LOSSES), attending("sdpa-flash", *WRONG)))
    assert told.verdict == "different"


def test_a_control_in_which_the_layer_is_still_on_is_none() -> None:
    told = verified(sides(compiled(ran()), compiled(ran())))
    assert told.verdict == "not compared"
    assert told.why == "the control is none: compile is still on in it (4 graphs, 100 % of the parameters)"


def test_what_both_ran_alike_is_said() -> None:
    told = verified(lambda variant: ran())
    assert told.verdict == "verified"
    assert "both ran the same stack" in told.notes[0]


def test_a_job_without_losses_is_not_compared() -> None:
    silent = ran([None] * 8)
    assert verified(sides(silent, silent)).verdict == "not compared"
    assert verified(sides(ran(), silent)).verdict == "not compared"


def test_what_the_control_lacks_is_said() -> None:
    unseen = msgspec.structs.replace(record(losses=()), notes=(Note(what="Python was started with -I"),))
    told = verified(lambda variant: unseen)
    assert (told.verdict, told.notes[0]) == ("not compared", "in the control: Python was started with -I")
    partly = Note(what="--set attention=math did not reach everything: direct calls of flash-attn")
    told = verified(sides(msgspec.structs.replace(ran(), notes=(partly, Note(what="other"))), compiled(ran())))
    assert told.notes == (f"in the control: {partly.what}",)


def test_another_number_of_steps_is_a_difference() -> None:
    told = verified(sides(ran(), ran(LOSSES[:5])))
    assert (told.verdict, told.why) == ("different", "the candidate made 5 optimizer steps and the control 8")


@pytest.mark.parametrize(("failing", "runs"), [("control", 1), ("candidate", 2)])
def test_a_run_that_fails_ends_the_comparison(failing: str, runs: int) -> None:
    made: list[Variant] = []

    def job(variant: Variant) -> Record:
        made.append(variant)
        return ran(code=1 if (failing == "control") is is_control(variant) else 0)

    told = verified(job)
    assert (told.verdict, told.why) == ("failed", f"the {failing} fails (ValueError)")
    assert len(made) == runs


def test_speed_is_told_beyond_a_least_effect_only() -> None:
    faster = verified(sides(ran(seconds=0.1), ran(seconds=0.05)))
    assert (faster.effect, faster.speed.ratio) == ("faster", pytest.approx(2))
    assert verified(sides(ran(seconds=0.1), ran(seconds=0.099))).effect == "no difference shown"
    assert effect(Speed(ratio=1.5, low=0.9, high=1.8)) == "no difference shown"
    assert effect(Speed(ratio=1.05, low=1.01, high=1.09)) == "no difference shown"
    assert effect(Speed(ratio=0.5, low=0.4, high=0.6)) == "slower"
    assert effect(Speed(ratio=1.5)) == "not measured"


def test_the_peak_is_the_highest_of_all_runs() -> None:
    peaks = iter((5, 3, 4, 6))

    def job(variant: Variant) -> Record:
        return with_actual(ran(), memory=Memory(peak_bytes=next(peaks), source="resident set"))

    told = verified(job)
    assert (told.memory.control_bytes, told.memory.candidate_bytes) == (6, 4)
