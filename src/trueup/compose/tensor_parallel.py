"""Tensor parallelism: the plan's styles on the mesh's dimension `tp`."""

from __future__ import annotations

from trueup.compose.composed import Composed


def parallelize(done: Composed) -> None:
    from torch.distributed.tensor.parallel import parallelize_module

    plan = done.plan
    parallelize_module(done.model, plan.mesh["tp"], dict(plan.tensor_parallel))
    done.applied_layer("sharding", f"tensor parallel over {plan.mesh['tp'].size()} ranks", len(plan.tensor_parallel))
