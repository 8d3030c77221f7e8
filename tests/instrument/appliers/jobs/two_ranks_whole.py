"""What programs do with FSDP2 and FSDP1 on two gloo ranks. Rank 0 prints, for each, numbers as JSON.

Arguments: beginnings of the functions to run.
"""

import functools
import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import (
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    StateDictType,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
from torch.distributed.tensor import distribute_tensor
from torch.utils.checkpoint import checkpoint

WIDTH = 16
FULL = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 3 * WIDTH)
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x + checkpoint(self.feed, x, use_reentrant=False) * self.scale

    def feed(self, x):
        return self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def score(self, x):
        return self(x).square().mean()


class Parted(Model):
    def __init__(self):
        super().__init__()
        self.extra = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return super().forward(self.extra(x) if dist.get_rank() else x)


def made():
    torch.manual_seed(0)
    return Model()


def sharded(model=None, **options):
    model = made() if model is None else model
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def wrapped(model=None, **options):
    policy = functools.partial(size_based_auto_wrap_policy, min_num_params=500)
    options = {"auto_wrap_policy": policy, "device_id": torch.device("cpu"), "use_orig_params": True, **options}
    return FullyShardedDataParallel(made() if model is None else model, **options)


def batch(step):
    return torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(10 * step + dist.get_rank()))


def mean(value):
    value = value.detach().float().clone()
    dist.all_reduce(value)
    return value.item() / 2


def train(model, optimizer=None, steps=3, call=None, begin=0):
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(begin, begin + steps):
        loss = (call or model)(batch(step)).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(mean(loss))
    return losses


# -- FSDP2 -------------------------------------------------------------------------------------------------------------


def accumulated(model, last):
    """Two micro batches to a step; `last(is_last)` says whether gradients are reduced."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(6):
        with last(step % 2 == 1):
            loss = model(batch(step)).square().mean()
            loss.backward()
        losses.append(mean(loss))
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
    return losses


def fsdp2_accumulation():
    model = sharded()

    class Last:
        def __init__(self, is_last):
            model.set_requires_gradient_sync(is_last)

        def __enter__(self):
            pass

        def __exit__(self, *_):
            pass

    return accumulated(model, Last)


def fsdp2_calls():
    model = sharded(reshard_after_forward=True)
    first, second = model.blocks
    first.set_modules_to_forward_prefetch([second])
    second.set_modules_to_backward_prefetch([first])
    model.set_is_last_backward(True)
    model.set_requires_all_reduce(True)
    model.set_reshard_after_forward(False)
    first.set_reshard_after_backward(True)
    handle = first.unshard(async_op=True)
    handle.wait()
    first.reshard()
    register_fsdp_forward_method(model, "score")
    losses = train(model)
    model.score(batch(0)).backward()
    gradient = model.head.weight.grad
    return [*losses, gradient.full_tensor().square().sum().item()]


def fsdp2_bf16():
    return train(sharded(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)))


def fsdp2_meta():
    with torch.device("meta"):
        model = Model()
    sharded(model)
    model.to_empty(device="cpu")
    torch.manual_seed(0)
    for name, parameter in model.named_parameters():
        full = torch.randn(parameter.shape) / 8 if "weight" in name else torch.ones(parameter.shape)
        with torch.no_grad():
            parameter.copy_(distribute_tensor(full, parameter.device_mesh, parameter.placements))
    return train(model)


def fsdp2_state():
    model = sharded()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    train(model, optimizer)
    weights, state = get_model_state_dict(model, options=FULL), get_optimizer_state_dict(model, optimizer, options=FULL)
    own = {name: value.full_tensor() for name, value in model.state_dict().items()}
    other = sharded()
    again = torch.optim.AdamW(other.parameters(), lr=1e-2)
    set_model_state_dict(other, weights, options=FULL)
    set_optimizer_state_dict(other, again, state, options=FULL)
    return [*train(other, again, begin=3), sum(value.square().sum().item() for value in own.values())]


def fsdp2_optimizer_in_backward():
    model = sharded()
    optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    losses = []
    for number in range(3):
        loss = model(batch(number)).square().mean()
        loss.backward()
        losses.append(mean(loss))
    return losses


def fsdp2_compiled():
    model = made()
    apply_activation_checkpointing(model, check_fn=lambda part: isinstance(part, Block))
    for block in model.blocks:
        block.compile(backend="eager")
    return train(sharded(model))


def whole_partly_used():
    """One rank uses a part that the other does not, which FSDP2 does not stand."""
    torch.manual_seed(0)
    model = sharded(Parted())
    losses = train(model)
    weight = model.extra.weight.detach()
    return [*losses, mean((weight.clone() if dist.get_rank() else -weight).sum())]  # 0 where the ranks agree


# -- FSDP1 -------------------------------------------------------------------------------------------------------------


def fsdp1_accumulation():
    model = wrapped(use_orig_params=False)

    def last(is_last):
        return torch.enable_grad() if is_last else model.no_sync()

    return accumulated(model, last)


def fsdp1_bf16():
    policy = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.bfloat16)
    return train(wrapped(mixed_precision=policy, auto_wrap_policy=None))


def fsdp1_state():
    model = wrapped()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    train(model, optimizer)
    with FullyShardedDataParallel.state_dict_type(
        model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(offload_to_cpu=False, rank0_only=False)
    ):
        weights = model.state_dict()
        state = FullyShardedDataParallel.optim_state_dict(model, optimizer)
    other = wrapped()
    again = torch.optim.AdamW(other.parameters(), lr=1e-2)
    FullyShardedDataParallel.set_state_dict_type(other, StateDictType.FULL_STATE_DICT)
    other.load_state_dict(weights)
    flat = FullyShardedDataParallel.optim_state_dict_to_load(other, again, state)
    again.load_state_dict(flat)
    with FullyShardedDataParallel.summon_full_params(other):
        whole = sum(parameter.numel() for parameter in other.parameters())
    facts = [whole, len(weights), sum("fsdp" in name for name in weights), len(state["state"])]
    return [*train(other, again, begin=3, steps=1), *facts]


def fsdp1_distributed_checkpoint():
    model = wrapped()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    train(model, optimizer)
    weights, state = get_model_state_dict(model, options=FULL), get_optimizer_state_dict(model, optimizer, options=FULL)
    other = wrapped()
    again = torch.optim.AdamW(other.parameters(), lr=1e-2)
    set_model_state_dict(other, weights, options=FULL)
    set_optimizer_state_dict(other, again, state, options=FULL)
    return train(other, again, begin=3)


def fsdp1_nested_and_clipped():
    torch.manual_seed(dist.get_rank())
    model = Model()
    model.blocks[0] = FullyShardedDataParallel(model.blocks[0], device_id=torch.device("cpu"))
    model = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), ShardedGradScaler("cpu", init_scale=4.0)
    losses = []
    for step in range(3):
        loss = model(batch(step)).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        losses += [mean(loss), model.clip_grad_norm_(0.5).item()]
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return losses


def main():
    dist.init_process_group("gloo")
    asked = tuple(sys.argv[1:])
    facts = {}
    for name, scenario in list(globals().items()):
        if name.startswith(asked):
            facts[name] = scenario()
    if dist.get_rank() == 0:
        print(json.dumps(facts))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
