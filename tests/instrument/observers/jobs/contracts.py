"""Prints what programs rely on about the functions that are observed: signatures, pickling, subclassing, identity."""

import copy
import inspect
import json
import pickle
import re

import accelerate
import peft
import torch
import torch.distributed as dist
import torch.distributed.fsdp
import torch.distributed.tensor.parallel
import transformers
from accelerate.utils import compile_regions
from torch import nn
from torch.distributed._composable.fsdp import fully_shard as old_fully_shard
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from transformers.modeling_utils import PreTrainedModel

functions = {
    "compile": torch.compile,
    "set_stance": torch.compiler.set_stance,
    "init_process_group": dist.init_process_group,
    "init_device_mesh": dist.init_device_mesh,
    "fully_shard": torch.distributed.fsdp.fully_shard,
    "parallelize_module": torch.distributed.tensor.parallel.parallelize_module,
    "checkpoint_wrapper": checkpoint_wrapper,
    "spawn": torch.multiprocessing.spawn,
    "get_peft_model": peft.get_peft_model,
    "compile_regions": compile_regions,
    "from_pretrained": PreTrainedModel.from_pretrained,
    "load": PreTrainedModel._load_pretrained_model,
}
methods = {
    "Module.to": nn.Module.to,
    "Module.half": nn.Module.half,
    "Module.compile": nn.Module.compile,
    "Module.load_state_dict": nn.Module.load_state_dict,
    "DDP": nn.parallel.DistributedDataParallel.__init__,
    "FSDP": torch.distributed.fsdp.FullyShardedDataParallel.__init__,
    "Optimizer": torch.optim.Optimizer.__init__,
    "GradScaler": torch.amp.GradScaler.__init__,
    "Accelerator": accelerate.Accelerator.__init__,
    "prepare": accelerate.Accelerator.prepare,
    "Trainer": transformers.Trainer.__init__,
    "PeftModel": peft.PeftModel.__init__,
    "add_adapter": peft.PeftModel.add_adapter,
    "load_adapter": peft.PeftModel.load_adapter,
    "set_adapter": peft.PeftModel.set_adapter,
}


class Net(nn.Sequential):
    def to(self, *args, **kwargs):
        return super().to(*args, **kwargs)


class Own(torch.optim.SGD):
    pass


def describe(function):
    signature = re.sub(r"at 0x\w+", "", str(inspect.signature(function)))
    return [function.__name__, function.__qualname__, function.__module__, signature]


def raised(function, *args):
    try:
        function(*args)
    except Exception as error:
        return [type(error).__name__, str(error)]
    return None


def broken(x):
    torch._dynamo.graph_break()
    net.to(torch.float32).half().float()
    return torch.compile(net, backend="eager")(x)


net = Net(nn.Linear(2, 2))
optimizer = Own(net.parameters(), lr=0.5)
again = pickle.loads(pickle.dumps(optimizer))
compiled = torch.compile(net, backend="eager")
ones = torch.ones(1, 2)
answers = {
    "signatures": {name: describe(function) for name, function in {**functions, **methods}.items()},
    "pickled": {
        name: pickle.loads(pickle.dumps(function)) is function
        for name, function in functions.items()
        if name not in ("from_pretrained", "load")
    },
    "class method": isinstance(PreTrainedModel.__dict__["from_pretrained"], classmethod),
    "kind of load": type(PreTrainedModel.__dict__["_load_pretrained_model"]).__name__,
    "bound to the subclass": transformers.LlamaForCausalLM.from_pretrained.__self__.__name__,
    "old name is the same": old_fully_shard is torch.distributed.fsdp.fully_shard,
    "state": callable(torch.distributed.fsdp.fully_shard.state),
    "pickled optimizer": [type(again).__name__, again.defaults["lr"], isinstance(again, torch.optim.Optimizer)],
    "copied module": type(copy.deepcopy(net)).__name__,
    "chained": net.to(torch.float64) is net,
    "compiled": [type(compiled).__name__, isinstance(compiled, nn.Module), compiled._orig_mod is net],
    "partial": type(torch.compile(backend="eager")).__name__,
    "scripted": type(torch.jit.script(nn.Linear(2, 2))).__name__,
    "traced .to": torch.equal(torch.compile(lambda x: net.to(torch.float32)(x), backend="eager")(ones), net(ones)),
    "traced after a break": torch.equal(torch.compile(broken, backend="eager")(ones), net(ones)),
    "graphs": torch._dynamo.utils.counters["stats"]["unique_graphs"],
    "frames": dict(torch._dynamo.utils.counters["frames"]),
    "breaks": sum(torch._dynamo.utils.counters["graph_break"].values()),
    "errors": [raised(torch.compile), raised(nn.Module.to), raised(net.load_state_dict, {}), raised(Own, [], 0.1)],
}
print(json.dumps(answers, sort_keys=True))
