"""What is looked at within a sampled step. Each part has `NAME` and `Window(sample)`, which may offer

- `listeners()` → {code object: function of the called frame}, for the frames of the step;
- `gradients_ready(optimizer)`, called when the gradients are complete;
- `fields()` → the part's fields of the `sample` event, after the step; `sample.operators` is then filled.
"""

from trueup_instrument.observers.samples import (
    attention,
    blocks,
    checkpointing,
    collectives,
    gradients,
    logits,
    matmuls,
    memory,
    model,
    padding,
    settings,
    updates,
)

PARTS = (blocks, attention, padding, checkpointing, matmuls, logits, collectives, gradients, updates, settings, memory)
__all__ = ["PARTS", "gradients", "memory", "model"]
