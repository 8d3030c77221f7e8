"""A quantised base model was compiled before the trainer got it, or its layers cannot be traced."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import asks_for_compile, install, installed_as, said, torch_version, version_of
from trueup.schema.environment import Environment
from trueup.schema.finding import Remedy
from trueup.schema.log import Log


def detect_log(log: Log) -> Sighting | None:
    """A break inside of bitsandbytes."""
    from trueup.rules.break_logs import break_lines

    for each in break_lines(log):
        frame = each.within(r"(?:^|/)bitsandbytes/")
        if frame is not None or each.says(r"\bbitsandbytes\.(?:functional|autograd|nn|cextension)|MatMul[48]Bit"):
            return each.sighting(
                log, "The compiled graph breaks inside of bitsandbytes, at each quantised layer.", "likely"
            )
    return None


def detect_in_environment(environment: Environment) -> Sighting | None:
    compiled, quantizer, torch = (
        asks_for_compile(environment),
        version_of(environment, "bitsandbytes"),
        torch_version(environment),
    )
    if compiled is None or quantizer is None or torch is None:
        return None
    if quantizer.release[:2] >= (0, 46) and torch.release[:2] >= (2, 8):
        return None
    return Sighting(
        message=f"torch.compile is asked for, and bitsandbytes {quantizer} with torch {torch} breaks its graphs.",
        evidence=(installed_as(environment.packages["bitsandbytes"]), said(compiled)),
        confidence="possible",
        severity="note",
        remedies=(install(environment, "bitsandbytes>=0.46", options="--upgrade", id="upgrade-bitsandbytes"),),
    )


RULE = Rule(
    id="adapter/quantized-model-compile-refused",
    title="Compile of a quantized base model is refused or breaks",
    layers=("adapter", "compile", "trainer"),
    severity="error",
    silent="",
    cause=(
        "Older bitsandbytes calls its kernels outside of torch's operator registry, so transformers refuses a "
        "quantised model that torch.compile has wrapped, of whatever method, when a Trainer is made."
    ),
    remedies=(
        Remedy(
            id="compile-in-place",
            kind="in-process",
            automatic=True,
            how="model.compile() in place of model = torch.compile(model), after get_peft_model",
        ),
        Remedy(
            id="compile-through-trainer",
            kind="config-edit",
            automatic=False,
            how="pass the uncompiled model and torch_compile=True, after get_peft_model",
        ),
        Remedy(
            id="upgrade-bitsandbytes",
            kind="install",
            automatic=False,
            how="pip install 'bitsandbytes>=0.46' 'torch>=2.8': 4-bit layers then trace without breaks",
        ),
    ),
    caution="The check looks for _orig_mod on the model: module.compile() in place passes it.",
    sources=("https://github.com/huggingface/peft/issues/1886",),
    log=(
        LogText(
            text="You cannot fine-tune quantized model with `torch.compile()`",
            versions="transformers 4.4x to 5",
        ),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
