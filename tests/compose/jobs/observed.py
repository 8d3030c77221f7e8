"""A composed model, trained for a few steps in one process; the observers look on."""

import sys
from pathlib import Path

import trueup

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from small import IndexedBlock, Model, batches, train

model = Model(IndexedBlock, blocks=10)
plan = trueup.Plan(
    precision="bf16",
    checkpointing=trueup.Checkpointing(),
    compile=trueup.CompilePolicy(backend="aot_eager"),
)
done = trueup.compose(model, plan)  # at: compose
train(done.model, batches([4] * 8))
print(done.check().require())
