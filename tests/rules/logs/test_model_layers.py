"""Logs of attention, precision, adapters, checkpoints, compile and trainer: each case alone, and within a long log."""

import attention_logs
import checkpoint_logs
import compile_logs
import precision_logs
import pytest

from trueup.logs import read
from trueup.rules import all_rules, judge_log

MODULES = (attention_logs, precision_logs, checkpoint_logs, compile_logs)
LAYERS = ("attention", "precision", "adapter", "checkpointing", "compile", "trainer")
CASES = [case for module in MODULES for case in module.CASES]
SHORT = {
    "attention/bundled-flash-rejects-newer-gpu: the GPU is named",
    "compile/recompile-kv-cache-in-training: a guard alone",
}

LINE = "{{'loss': {loss:.4f}, 'grad_norm': {norm}, 'learning_rate': 5e-05, 'epoch': {epoch}}}\n"
STEPS = "".join(LINE.format(loss=2.5 - step / 400, norm=1 + step % 7 / 10, epoch=step / 400) for step in range(400))


def findings(tmp_path, text):
    log = tmp_path / "job.log"
    log.write_text(text, encoding="utf-8")
    return judge_log(read(log))


@pytest.mark.parametrize("around", ["", STEPS], ids=["alone", "in a long log"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_judgement(case, around, tmp_path):
    if around and str(case) in SHORT:
        pytest.skip("rests on a line that tells nothing by itself, so that a long log does not mark it")
    found = findings(tmp_path, around + case.text)
    told = [f"{finding.rule} ({finding.confidence})" for finding in found]
    if case.first is None:
        assert not [finding for finding in found if finding.confidence != "possible"], told
        return
    assert found, "nothing was found"
    assert found[0].rule == case.first, told
    assert found[0].evidence, "a finding without evidence is an opinion"
    if case.confidence:
        assert found[0].confidence == case.confidence, told


@pytest.mark.parametrize(
    "rule", [rule.id for rule in all_rules() if rule.layer in LAYERS and (rule.log or rule.from_log)]
)
def test_each_rule_has_a_case_for_and_a_case_against_it(rule):
    assert any(case.rule == rule and case.first == rule for case in CASES)
    assert any(case.rule == rule and case.first != rule for case in CASES)
