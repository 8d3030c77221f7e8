"""Jobs that tell everything observation could change: losses, weights, Dynamo's counters, states of random numbers."""

import hashlib
import os
import random

import models
import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader

STEPS = 8


def told(losses, model):
    """Bit for bit: losses, weights, Dynamo's counters and the random numbers that would come next."""
    weights = hashlib.sha256()
    for parameter in model.parameters():
        weights.update(getattr(parameter.detach(), "_local_tensor", parameter.detach()).contiguous().numpy().tobytes())
    counters = {name: dict(counter) for name, counter in torch._dynamo.utils.counters.items() if counter}
    return {
        "losses": [float(loss).hex() for loss in losses],
        "weights": weights.hexdigest(),
        "counters": counters,
        "torch random": hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest(),
        "random": random.random(),
        "numpy random": numpy.random.random(),
        "threads": torch.get_num_threads(),
    }


def batches(steps=STEPS, lengths=(6,)):
    """Two rows of equal length a step; the lengths take turns."""
    turns = [lengths[step % len(lengths)] for step in range(steps) for _ in range(2)]
    return DataLoader([torch.randint(0, 16, (length + 1,)) for length in turns], batch_size=2)


def train(model, optimizer, loader=None, call=None):
    losses = []
    for ids in loader or batches():
        loss = models.loss_of(model if call is None else call, ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return told(losses, model)


def eager():
    model = models.Model(dropout=0.1)
    shuffled = DataLoader([torch.randint(0, 16, (7,)) for _ in range(2 * STEPS)], batch_size=2, shuffle=True)
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), shuffled)


def compiled_blocks(backend="aot_eager"):
    model = models.Model(dropout=0.1, broken=True)
    for block in model.blocks:
        block.compile(backend=backend)
    return train(model, torch.optim.AdamW(model.parameters()), batches(lengths=(6, 9, 12)))


def compiled_by_inductor():
    model = models.Model(blocks=2)
    for block in model.blocks:
        block.compile()
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1))


def compiled_model():
    model = models.Model(dropout=0.1, broken=True)
    whole = torch.compile(model, backend="aot_eager")
    return train(model, torch.optim.AdamW(model.parameters()), batches(lengths=(6, 9, 12)), call=whole)


def compiled_training_step():
    model = models.Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(backend="eager")
    def step(ids):
        loss = models.loss_of(model, ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return told([step(ids) for ids in batches()], model)


def compiled_optimizer():
    model = models.Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @torch.compile(backend="aot_eager")
    def update():
        optimizer.step()

    losses = []
    for ids in batches():
        loss = models.loss_of(model, ids)
        loss.backward()
        update()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return told(losses, model)


def checkpointed(use_reentrant):
    model = models.Model(dropout=0.1)

    class Checkpointed(nn.Module):
        def forward(self, ids):
            x = model.embedding(ids)
            for block in model.blocks:
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=use_reentrant)
            return model.head(x)

    return train(model, torch.optim.SGD(model.parameters(), lr=0.1), call=Checkpointed())


def accumulated():
    model = models.Model(dropout=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
    losses = []
    for number, ids in enumerate(batches(3 * STEPS), 1):
        loss = models.loss_of(model, ids) / 3
        loss.backward()
        losses.append(loss.detach())
        if number % 3 == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    return told(losses, model)


def scaled():
    model = models.Model(dropout=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**60, growth_interval=2)  # the first steps overflow
    losses = []
    for ids in batches(2 * STEPS):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = models.loss_of(model, ids)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return {**told(losses, model), "scale": scaler.get_scale()}


def distributed():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{os.environ['STORE']}", rank=rank, world_size=size
    )


def replicated():
    distributed()
    model = nn.parallel.DistributedDataParallel(models.Model(dropout=0.1))
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1))


def sharded():
    from torch.distributed.fsdp import fully_shard

    distributed()
    model = models.Model(dropout=0.1)
    for block in model.blocks:
        block.compile(backend="aot_eager")
        fully_shard(block)
    fully_shard(model)
    return train(model, torch.optim.AdamW(model.parameters()), batches(lengths=(6, 9)))


def trainer(folder):
    import transformers

    transformers.set_seed(0)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=16, hidden_size=8, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2
        )
    )
    rows = [{"input_ids": (ids := torch.randint(0, 16, (6,))), "labels": ids} for _ in range(4 * STEPS)]
    settings = transformers.TrainingArguments(
        output_dir=folder,
        max_steps=STEPS,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        gradient_checkpointing=True,
        torch_compile=True,
        torch_compile_backend="aot_eager",
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trained = transformers.Trainer(model, settings, train_dataset=rows)
    trained.train()
    return told([entry["loss"] for entry in trained.state.log_history if "loss" in entry], model)
