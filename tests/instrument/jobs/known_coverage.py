"""Models of which it is known by construction how much is compiled. Each job returns that truth."""

import os

import models
import torch
from models import Block, Model, elements, loss_of
from torch import nn

STEPS = 5
"""The third is the first quiet one; another sample follows it."""


def ids(length=6):
    return torch.randint(0, 16, (2, length + 1))


def train(model, call=None, calls=1):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        for _ in range(calls):
            loss_of(model if call is None else call, ids()).backward()
        optimizer.step()
        optimizer.zero_grad()


def truth(model, blocks, compiled, fully=None):
    """`blocks` of them, `compiled` of which ran compiled; `fully`: the modules that ran compiled, blocks by default."""
    inside = fully if fully is not None else list(model.blocks)[:compiled]
    return {"total": blocks, "compiled": compiled, "fraction": sum(map(elements, inside)) / elements(model)}


def compile_all(blocks):
    for block in blocks:
        block.compile(backend="eager")


def nothing():
    model = Model()
    train(model)
    return truth(model, 4, 0)


def per_block():
    model = Model()
    compile_all(model.blocks)
    train(model)
    return truth(model, 4, 4)


def per_block_replaced():
    """torch.compile instead of Module.compile: each block is put into a wrapper."""
    model = Model()
    for number, block in enumerate(model.blocks):
        model.blocks[number] = torch.compile(block, backend="eager")
    train(model)
    return truth(model, 4, 4)


def half_of_the_blocks():
    model = Model()
    compile_all(model.blocks[:2])
    train(model)
    return truth(model, 4, 2)


def broken_inside():
    model = Model(broken=True)
    compile_all(model.blocks)
    train(model)
    return truth(model, 4, 4)


class Looping(Block):
    """Dynamo leaves a frame alone when it must stop inside a loop: the block runs as plain Python."""

    def forward(self, x):
        for _ in range(1):
            torch._dynamo.graph_break()
        return x + self.down(self.up(self.norm(x)).relu())


def stopped_in_a_loop():
    """Its parts are torch's own modules, which Dynamo compiles inside other code only."""
    model = Model()
    model.blocks = nn.ModuleList(Looping() for _ in range(4))
    compile_all(model.blocks)
    train(model)
    return truth(model, 4, 0)


def whole():
    model = Model()
    train(model, torch.compile(model, backend="eager"))
    return truth(model, 4, 4, [model])


def in_place():
    model = Model()
    model.compile(backend="eager")
    train(model)
    return truth(model, 4, 4, [model])


def function():
    model = Model()
    call = torch.compile(lambda given: model(given), backend="eager")
    train(model, call)
    return truth(model, 4, 4, [model])


def disabled_block():
    """Dynamo must stop within the loop over the blocks: it leaves the model's own forward alone, not its parts."""
    model = Model()
    model.blocks[1].forward = torch.compiler.disable(model.blocks[1].forward)
    train(model, torch.compile(model, backend="eager"))
    return truth(model, 4, 3, [model.blocks[0], model.blocks[2], model.blocks[3]])


class Stages(nn.Module):
    """Rows in a row: a stage is a list of blocks, and the stages are a list."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(16, 8)
        self.stages = nn.ModuleList(nn.ModuleList(Block() for _ in range(2)) for _ in range(3))
        self.head = nn.Linear(8, 16)

    def forward(self, given):
        x = self.embedding(given)
        for stage in self.stages:
            for block in stage:
                x = block(x)
        return self.head(x)


def nested_lists():
    model = Stages()
    first = [block for stage in model.stages[:2] for block in stage]
    compile_all(first)
    train(model)
    return truth(model, 6, 4, first)


def sequential():
    blocks = nn.Sequential(*(Block() for _ in range(3)))
    model = nn.Sequential(nn.Embedding(16, 8), blocks, nn.Linear(8, 16))
    compile_all(blocks[:2])
    train(model)
    return truth(model, 3, 2, blocks[:2])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(16, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(8, 16)

    def forward(self, given):
        return self.head(self.encoder(self.embedding(given)))


def stock_encoder_whole():
    model = Encoder()
    train(model, torch.compile(model, backend="eager"))
    return truth(model, 3, 3, [model])


def stock_encoder_in_place():
    """Module.compile of torch's own classes compiles nothing."""
    model = Encoder()
    compile_all(model.encoder.layers)
    train(model)
    return truth(model, 3, 0, [])


def shared_block():
    """One block four times in the row."""
    model = Model(blocks=1)
    model.blocks = nn.ModuleList([model.blocks[0]] * 4)
    compile_all([model.blocks[0]])
    train(model)
    return truth(model, 4, 4, [model.blocks[0]])


def shared_weights():
    """Four blocks that hold the same tensors."""
    model = Model()
    for block in model.blocks[1:]:
        block.up, block.down, block.norm = model.blocks[0].up, model.blocks[0].down, model.blocks[0].norm
    compile_all(model.blocks)
    train(model)
    return truth(model, 4, 4, [model.blocks[0]])


def called_twice():
    model = Model()
    compile_all(model.blocks[:3])
    train(model, calls=2)
    return truth(model, 4, 3)


def teacher_and_student():
    """The student is compiled block by block and trains; the teacher runs as it is, without gradients."""
    teacher, student = Model(blocks=6), Model(blocks=4)
    compile_all(student.blocks)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for _ in range(STEPS):
        given = ids()
        with torch.no_grad():
            wanted = teacher(given)
        nn.functional.mse_loss(student(given), wanted).backward()
        optimizer.step()
        optimizer.zero_grad()
    return truth(student, 4, 4)


def checkpoint_around_compiled():
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    model = Model()
    for number, block in enumerate(model.blocks):
        block.compile(backend="eager")
        model.blocks[number] = checkpoint_wrapper(block)
    train(model)
    return truth(model, 4, 4)


class InSegments(Model):
    """Two segments: one checkpoint around two blocks, and two blocks outside of any."""

    def forward(self, ids):
        from torch.utils.checkpoint import checkpoint_sequential

        return self.head(checkpoint_sequential(list(self.blocks), 2, self.embedding(ids), use_reentrant=False))


def checkpoints_of_several_blocks():
    model = InSegments()
    compile_all(model.blocks)
    train(model)
    return truth(model, 4, 4)


def compiled_around_checkpoint():
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    model = Model()
    for number, block in enumerate(model.blocks):
        model.blocks[number] = checkpoint_wrapper(block)
        model.blocks[number].compile(backend="eager")
    train(model)
    return truth(model, 4, 4)


def distributed():
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{os.environ['STORE']}", rank=int(os.environ["RANK"]), world_size=2
    )


def replicated():
    distributed()
    model = Model()
    compile_all(model.blocks[:3])
    train(nn.parallel.DistributedDataParallel(model))
    return truth(model, 4, 3)


def replicated_and_compiled_around():
    distributed()
    model = nn.parallel.DistributedDataParallel(models.Model())
    train(model, torch.compile(model, backend="eager"))
    return truth(model.module, 4, 4, [model.module])


def sharded():
    from torch.distributed.fsdp import fully_shard

    distributed()
    model = Model()
    for block in model.blocks:
        fully_shard(block)
    compile_all(model.blocks[:3])
    fully_shard(model)
    wanted = truth(model, 4, 3)
    train(model)
    return wanted


def sharded_the_old_way():
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    distributed()
    model = Model()
    compile_all(model.blocks[:3])
    wanted = truth(model, 4, 3)
    options = {"auto_wrap_policy": ModuleWrapPolicy({Block}), "use_orig_params": True}
    train(FullyShardedDataParallel(model, device_id=torch.device("cpu"), **options))
    return wanted
