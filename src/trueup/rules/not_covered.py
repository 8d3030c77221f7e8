"""Failure classes that are known and have no rule, since no single log, environment or record shows them surely."""

from __future__ import annotations

NOT_COVERED = {
    "attention/flash-padded-positions-compared": (
        "It is a comparison of two runs that is read wrongly: outputs at padded positions are undefined, and each "
        "implementation fills them in its own way. Each run alone is healthy. Compare the loss and the unmasked "
        "positions."
    ),
    "attention/kernel-patch-not-applied": (
        "A patch that no longer matches leaves the library as it was, which is what an unpatched job looks like. The "
        "stack table names the kernels that ran; where the patch states an implementation in the configuration, "
        "`attention/kernel-math-fallback` and its neighbours judge it."
    ),
    "memory/compile-raises-peak": (
        "It takes the peak of the same job without compile: run it with `--set compile=off` and compare `memory` of "
        "both reports."
    ),
    "memory/stale-output-reference": (
        "Whether the output of the last step is alive while the next forward allocates can be seen only inside that "
        "forward, which is not looked into; the resident set of a CPU job does not fall when tensors are freed. "
        "`memory/full-vocabulary-logits` says what one copy of the logits costs."
    ),
}
"""Id of the class → why, and what to look at instead."""
