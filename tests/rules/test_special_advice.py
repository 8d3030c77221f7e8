"""Where the record shows more than the class of a failure, cause and remedy name it."""

import pytest
from healthy_record import HEALTHY, event, record

from trueup.logs import read
from trueup.rules import judge_log
from trueup.rules.registry import rule


def found(rule_id, change):
    return rule(rule_id).from_record(record(change))


def hows(sighting):
    return " | ".join(remedy.how for remedy in sighting.remedies)


UNCAST = [each for each in HEALTHY["order"] if each["event"] != "autocast"]
PRECISION = {"actual": {"precision": {"matmul": {"float32": 1.0}}}}
ACCELERATOR = event("trainer", "Accelerator", mixed_precision="bf16")


@pytest.mark.parametrize(
    ("order", "given"),
    [
        ([event("trainer", "Accelerator.prepare", "AdamW, DataLoader", models=0)], "it was given AdamW, DataLoader"),
        ([], "it was never called"),
    ],
)
def test_a_model_that_accelerate_never_got(order, given):
    sighting = found("precision/requested-and-not-applied", {"order": [*UNCAST, ACCELERATOR, *order]} | PRECISION)
    assert given in sighting.cause
    assert hows(sighting).startswith("pass the model to accelerator.prepare")
    assert all(each.value for each in sighting.evidence if each.what.endswith(" to"))


@pytest.mark.parametrize(
    "order",
    [
        [ACCELERATOR, event("trainer", "Accelerator.prepare", "Sequential", models=1)],
        [ACCELERATOR, event("trainer", "Accelerator.prepare", "Sequential")],  # a record of an older release
        [event("trainer", "Accelerator", mixed_precision="no")],
        [ACCELERATOR, event("precision", "autocast")],
        [],
    ],
)
def test_elsewhere_nothing_is_said_of_prepare(order):
    sighting = found("precision/requested-and-not-applied", {"order": [*UNCAST, *order]} | PRECISION)
    assert (sighting.cause, sighting.remedies) == ("", ())


ACCUMULATED = {"actual": {"training": {"accumulation": 8}, "sharding": {"reducing_backwards": 8}}}


@pytest.mark.parametrize(
    ("configured", "words"),
    [(1, "Accelerator(gradient_accumulation_steps=8)"), (8, "keep gradient_accumulation_steps=8")],
)
def test_accumulation_by_hand_under_accelerate(configured, words):
    order = [event("trainer", "Accelerator", gradient_accumulation_steps=configured)]
    sighting = found("sharding/gradient-sync-every-micro-step", {"order+": order} | ACCUMULATED)
    assert words in hows(sighting)
    assert "do not divide the loss" in hows(sighting)


def test_accumulation_without_accelerate():
    assert found("sharding/gradient-sync-every-micro-step", ACCUMULATED).remedies == ()


def test_an_adapter_that_was_added_after_the_optimizer():
    change = {
        "order+": [event("adapter", "add_adapter", adapter="second", at="train.py:30")],
        "actual": {"training": {"in_no_optimizer": ["layers.0.q_proj.lora_A.second.weight"]}},
    }
    sighting = found("adapter/adapters-not-trained", change)
    assert "add_adapter leaves a new adapter frozen" in sighting.cause
    assert "model.set_adapter('second') behind add_adapter" in hows(sighting)
    assert any(each.at == "train.py:30" for each in sighting.evidence)


LIGHTNING = event("trainer", "Trainer.fit", library="lightning", strategy="FSDPStrategy")
FABRIC = event("trainer", "Fabric", strategy="FSDPStrategy")


@pytest.mark.parametrize(
    ("strategy", "order", "words"),
    [
        ("FSDP2", [], "fully_shard(block) for each block"),
        ("FSDP1/FULL_SHARD", [], "FullyShardedDataParallel(model, auto_wrap_policy="),
        ("FSDP2", [event("trainer", "Accelerator")], ""),
        ("FSDP1/FULL_SHARD", [LIGHTNING], "Trainer(strategy=FSDPStrategy(auto_wrap_policy="),
        ("FSDP1/FULL_SHARD", [FABRIC], "Fabric(strategy=FSDPStrategy(auto_wrap_policy="),
        ("FSDP2", [event("trainer", "Fabric", strategy="ModelParallelStrategy")], "fully_shard(block) for each block"),
    ],
)
def test_one_unit_is_answered_with_the_line_of_who_made_it(strategy, order, words):
    change = {"order+": order, "actual": {"sharding": {"strategy": strategy, "units": 1}}}
    assert hows(found("sharding/no-wrap-policy-single-unit", change)).startswith(words)
    assert [each.id for each in found("sharding/no-wrap-policy-single-unit", change).remedies] == (
        ["wrap-blocks"] if words else []
    )


def rates(source):
    reason = "0/{0}: {1} == 0.0{2} # return F.dropout(input, self.p, self.training, self.inplace) # dropout.py:73"
    recompiles = [
        {"reason": reason.format(i, source, i + 1), "function": "forward (model.py:14)", "count": 1, "step": i + 2}
        for i in range(6)
    ]
    return {"actual": {"compile": {"recompiles": recompiles}}}


@pytest.mark.parametrize("source", ["self._modules['drop'].p", "self.attn_dropout", "self.drop_prob"])
def test_a_dropout_rate_that_changes_each_step_is_not_called_a_counter(source):
    sighting = found("compile/recompile-growing-python-state", rates(source))
    assert "dropout takes its rate as a constant" in sighting.cause
    assert [each.automatic for each in sighting.remedies] == [False]


@pytest.mark.parametrize(
    ("models", "reason", "severity"),
    [(10, "steps reached", "warning"), (10, None, "note"), (6, "steps reached", "note")],
)
def test_an_ensemble_whose_limit_lies_after_the_last_step_of_a_short_run(models, reason, severity):
    size = "tensor 'self.w._parameters['b']' size mismatch at index 0. expected {}, actual {}. On a parameter"
    recompiles = [{"reason": f"0/{i}: {size.format(8 * i, 8 * i + 8)}", "count": 1, "step": 6 * i} for i in range(1, 5)]
    actual = {"training": {"models": ["Reward"] * models}, "compile": {"recompiles": recompiles}}
    sighting = found("compile/recompile-shared-code-object", {"actual": actual, "exit": {"code": 0, "reason": reason}})
    assert sighting.severity == severity
    assert ("after the last step" in sighting.message) == (severity == "warning")


INTO_A_LIST = "(_dynamo/variables/lists.py:174 in getitem_const)"


@pytest.mark.parametrize(("place", "automatic"), [(INTO_A_LIST, [False]), ("", [])])
def test_an_integer_that_picks_from_a_list_needs_the_list_in_a_tensor(place, automatic):
    recompiles = [
        {
            "reason": f"0/{i}: t == {7 * i} # self.signal[t] * x # train.py:34 in forward {place if i else ''}",
            "count": 1,
            "step": i,
        }
        for i in range(6)
    ]
    sighting = found("compile/recompile-integer-argument", {"actual": {"compile": {"recompiles": recompiles}}})
    assert [each.automatic for each in sighting.remedies] == automatic
    assert ("a Python list" in sighting.cause) == bool(place)


def test_another_number_keeps_the_general_advice():
    sighting = found("compile/recompile-growing-python-state", rates("self.temperature"))
    assert (sighting.cause, sighting.remedies) == ("", ())


TRUNCATED = """Traceback (most recent call last):
  File "/w/train.py", line 31, in <module>
    model(x)
  File "/opt/lib/python3.11/site-packages/torch/_inductor/codecache.py", line 4008, in _load_library_inner
    module = importlib.util.module_from_spec(spec)
{error}
"""
SHORT = "torch._inductor.exc.InductorError: ImportError: /tmp/torchinductor_u/wx/cwx.main.so: file too short"


@pytest.mark.parametrize(
    ("before", "words"), [("", "a killed run or a full disk"), ("local_rank 0 of 8\n", "several processes share")]
)
def test_a_truncated_file_of_the_cache_is_laid_to_other_ranks_only_where_there_are_some(tmp_path, before, words):
    log = tmp_path / "job.log"
    log.write_text(before + TRUNCATED.format(error=SHORT))
    (finding,) = judge_log(read(log))
    assert finding.rule == "compile/cache-race-between-ranks"
    assert words in finding.message


LOOKUP = """Traceback (most recent call last):
  File "/w/ema.py", line 17, in update
    mine[name].lerp_(value, 1 - self.decay)
KeyError: '_orig_mod.mlp.0.weight'
"""


def test_a_name_of_the_compiled_module_that_an_average_of_the_plain_one_lacks_ends_the_job(tmp_path):
    log = tmp_path / "job.log"
    log.write_text(LOOKUP)
    (finding,) = judge_log(read(log))
    assert (finding.rule, finding.severity) == ("compile/orig-mod-prefix-in-checkpoint", "error")
    assert "looked up by its name in the compiled module, _orig_mod.mlp.0.weight" in finding.message


@pytest.mark.parametrize(
    ("cache", "given"),
    [(None, ["leak-free-packing", "pass-sequence-boundaries"]), (True, [])],
)
def test_a_cache_that_is_not_there_is_not_to_be_switched_off(cache, given):
    kernels = [{"name": "sdpa-flash-cpu", "calls": 12, "share": 1.0, "op": None}]
    seen = {"kernels": kernels, "packed": True, "given_mask": "all-ones", "cache": cache, "masks": {"none": 3}}
    sighting = found("attention/packing-leak-mask-or-cache-present", {"actual": {"attention": seen}})
    assert [each.id for each in sighting.remedies] == given
