"""Jobs that would make 20 optimizer steps, and write down after each how many they have made."""

import os
import threading

import models
import torch
from torch.utils.data import DataLoader

STEPS = 20


class Counting(torch.optim.SGD):
    """Writes the number of its steps into a file of this rank."""

    made = 0

    def step(self, *args, **kwargs):
        result = super().step(*args, **kwargs)
        self.made += 1
        with open(f"{os.environ['COUNTS']}-{os.environ.get('RANK', '0')}", "w") as file:
            file.write(str(self.made))
        return result


def job():
    model = models.Model(blocks=1)
    return model, Counting(model.parameters(), lr=0.1)


def step(model, optimizer, given):
    models.loss_of(model, given).backward()
    optimizer.step()
    optimizer.zero_grad()


def rows():
    return [torch.randint(0, 16, (7,)) for _ in range(2 * STEPS)]


def plain():
    model, optimizer = job()
    for given in DataLoader(rows(), batch_size=2):
        step(model, optimizer, given)


def catches_exceptions():
    model, optimizer = job()
    for given in DataLoader(rows(), batch_size=2):
        try:
            step(model, optimizer, given)
        except Exception as error:
            raise AssertionError from error


def catches_everything():
    """A bare `except` swallows even the request to end: the process ends when it begins another step."""
    model, optimizer = job()
    print("buffered until the end")
    for given in DataLoader(rows(), batch_size=2, num_workers=2):
        try:
            step(model, optimizer, given)
        except:  # noqa: E722
            print("swallowed")


def in_thread():
    """The request to end ends the thread; the main thread has nothing left to do."""
    thread = threading.Thread(target=plain)
    thread.start()
    thread.join()


def catches_everything_around_the_loop():
    model, optimizer = job()
    try:
        for given in DataLoader(rows(), batch_size=2):
            step(model, optimizer, given)
    except:  # noqa: E722
        return "saved"


def workers():
    model, optimizer = job()
    for given in DataLoader(rows(), batch_size=2, num_workers=2, persistent_workers=True):
        step(model, optimizer, given)


def accumulates():
    model, optimizer = job()
    for number, given in enumerate(rows(), 1):
        models.loss_of(model, given[None]).backward()
        if number % 2 == 0:
            optimizer.step()


def two_optimizers():
    """Both make the same number of steps."""
    models_and_optimizers = [job(), job()]
    for given in DataLoader(rows(), batch_size=2):
        for model, optimizer in models_and_optimizers:
            step(model, optimizer, given)


def compiled_optimizer():
    """It calls no hooks: its step is seen when the next batch is asked for."""
    model, optimizer = job()
    update = torch.compile(lambda: torch.optim.SGD.step(optimizer), backend="eager")
    for given in DataLoader(rows(), batch_size=2):
        models.loss_of(model, given).backward()
        update()
        optimizer.made += 1
        with open(f"{os.environ['COUNTS']}-0", "w") as file:
            file.write(str(optimizer.made))


def replicated():
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{os.environ['STORE']}", rank=int(os.environ["RANK"]), world_size=2
    )
    model, optimizer = job()
    model = torch.nn.parallel.DistributedDataParallel(model)
    for given in DataLoader(rows(), batch_size=2):
        step(model, optimizer, given)


def accelerated():
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, optimizer = job()
    loader = DataLoader(rows() + rows(), batch_size=2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for given in loader:
        with accelerator.accumulate(model):
            accelerator.backward(models.loss_of(model, given))
            optimizer.step()
            optimizer.zero_grad()


def trainer(folder):
    import transformers

    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=16, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1
        )
    )
    settings = transformers.TrainingArguments(
        output_dir=folder, max_steps=STEPS, per_device_train_batch_size=2, report_to=[], use_cpu=True, disable_tqdm=True
    )
    data = [{"input_ids": row, "labels": row} for row in rows()]
    optimizer = Counting(model.parameters(), lr=0.1)
    transformers.Trainer(model, settings, train_dataset=data, optimizers=(optimizer, None)).train()
