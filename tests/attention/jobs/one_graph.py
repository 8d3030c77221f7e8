"""flash_attention_2 of transformers under torch.compile: graphs, breaks and results, for kinds of input and of compile.

    one_graph.py LAYERS BACKEND KIND,... MODE,...

Prints one line of JSON: a list of cells. `digest` is of the logits of real tokens and of all gradients, bit by bit;
mode `eager` compiles nothing.
"""

import hashlib
import json
import logging
import sys

import torch
from torch._dynamo.utils import counters
from transformers import LlamaConfig, LlamaForCausalLM

from trueup.attention.cpu.huggingface import allow_flash_attention_2

LENGTH, FIRST = 16, 5
RESTARTED = torch.cat([torch.arange(FIRST), torch.arange(LENGTH - FIRST)])[None]
CONFIG = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "use_cache": False,
}


def model(layers: int, kind: str) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(**CONFIG, num_hidden_layers=layers)
    dtype = torch.float32 if kind == "autocast" else torch.bfloat16
    made = LlamaForCausalLM._from_config(config, attn_implementation="flash_attention_2", dtype=dtype)
    return made.train()


def inputs(kind: str) -> dict:
    torch.manual_seed(1)
    rows = 1 if kind in ("packed", "single", "explicit") else 2
    given = {"input_ids": torch.randint(0, 64, (rows, LENGTH))}
    if kind in ("ones", "right", "left", "holes"):
        mask = given["attention_mask"] = torch.ones(rows, LENGTH, dtype=torch.long)
        hidden = {"ones": [], "right": range(11, LENGTH), "left": range(5), "holes": (3, 4, 9)}[kind]
        mask[1, list(hidden)] = 0
    if kind in ("packed", "explicit"):
        given["position_ids"] = RESTARTED
    if kind == "explicit":
        starts = torch.tensor([0, FIRST, LENGTH], dtype=torch.int32)
        given |= {"cu_seq_lens_q": starts, "cu_seq_lens_k": starts, "max_length_q": 11, "max_length_k": 11}
    return given


class Breaks(logging.Handler):
    """Counts what Dynamo writes of each graph break: its counters leave some out."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        artifact = getattr(record, "metadata", {}).get("artifact", {})
        self.count += artifact.get("name") == "dynamo_graph_break_reason"


def digest(call, trained: LlamaForCausalLM, kind: str) -> str:
    given = inputs(kind)
    with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
        logits = call(**given).logits
    if "attention_mask" in given:
        logits = logits * given["attention_mask"][..., None]
    logits.float().square().mean().backward()
    found = hashlib.sha256(logits.detach().float().numpy().tobytes())
    for parameter in trained.parameters():
        found.update(parameter.grad.float().numpy().tobytes())
    return found.hexdigest()


def cell(kind: str, mode: str, layers: int, backend: str, breaks: Breaks) -> dict:
    torch._dynamo.reset()
    counters.clear()
    breaks.count = 0
    trained = call = model(layers, kind)
    if mode == "whole":
        call = torch.compile(trained, backend=backend)
    elif mode != "eager":
        for block in trained.model.layers:
            block.compile(backend=backend, fullgraph=mode == "full")
    try:
        found = {"digest": digest(call, trained, kind), "error": ""}
    except (torch._dynamo.exc.Unsupported, torch._dynamo.exc.FailOnRecompileLimitHit) as error:
        found = {"digest": "", "error": str(error).strip().splitlines()[0]}
    limits = sum("recompile limit" in reason.splitlines()[0] for reason in counters["unimplemented"])
    graphs = counters["stats"]["unique_graphs"]
    return {"kind": kind, "mode": mode, "graphs": graphs, "breaks": breaks.count, "limits": limits, **found}


def main() -> None:
    allow_flash_attention_2()
    layers, backend, kinds, modes = sys.argv[1:]
    breaks = Breaks()
    trace = logging.getLogger("torch.__trace")
    trace.addHandler(breaks)
    trace.setLevel(logging.DEBUG)
    cells = [cell(kind, mode, int(layers), backend, breaks) for kind in kinds.split(",") for mode in modes.split(",")]
    print(json.dumps(cells))


if __name__ == "__main__":
    main()
