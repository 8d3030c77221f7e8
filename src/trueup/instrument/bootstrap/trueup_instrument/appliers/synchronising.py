"""What reduces the gradients of a data-parallel model over ranks, how to leave it out, and how to make up for it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Replicated:
    """A DistributedDataParallel."""

    def __init__(self, wrapper: Any) -> None:
        self.model = wrapper

    @property
    def reduces(self) -> bool:
        """Whether the next backward pass reduces gradients."""
        return bool(self.model.require_backward_grad_sync)

    def set(self, reduces: bool) -> None:
        self.model.require_backward_grad_sync = reduces

    def finish(self) -> None:
        """Average the gradients that no backward pass has reduced; each rank calls it."""
        torch = sys.modules["torch"]
        distributed = torch.distributed
        group, size = self.model.process_group, distributed.get_world_size(self.model.process_group)
        trained = [each for each in self.model.parameters() if each.requires_grad]
        if not trained:
            return
        held = torch.tensor([each.grad is not None for each in trained], dtype=torch.int32, device=trained[0].device)
        distributed.all_reduce(held, group=group)
        for parameter, ranks in zip(trained, held.tolist(), strict=True):
            if not ranks:
                continue  # on no rank was it part of a loss
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            distributed.all_reduce(parameter.grad, group=group)
            parameter.grad /= size


class Sharded:
    """The root of an FSDP2 model; `state` is its FSDPState."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self.model = state._modules[0]

    @property
    def reduces(self) -> bool:
        """Whether the next backward pass reduces gradients in every unit."""
        return all(group.reduce_grads for state in self._state._state_ctx.all_states for group in _groups(state))

    def set(self, reduces: bool) -> None:
        self.model.set_requires_gradient_sync(reduces)

    def finish(self) -> None:
        """Reduce the gradients that no backward pass has reduced, as at the end of one that does."""
        self.set(True)
        self._state._root_post_backward_final_callback()


def _groups(state: Any) -> list[Any]:
    if hasattr(state, "_fsdp_param_groups"):
        return list(state._fsdp_param_groups)
    return [state._fsdp_param_group] if state._fsdp_param_group is not None else []  # before torch 2.11
