"""Jobs that profile themselves while they train. Each tells what its own profiler has seen."""

import cProfile
import os
import pstats
import sys
import threading

import models
import torch
from torch.utils.data import DataLoader

STEPS = 8


def job():
    model = models.Model()
    for block in model.blocks:
        block.compile(backend="eager")
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def step(model, optimizer):
    loss = models.loss_of(model, torch.randint(0, 16, (2, 7)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return float(loss.detach()).hex()


def multiplications(events):
    return sum(event.count for event in events if event.key in ("aten::addmm", "aten::mm"))


def torch_profiler_over_all_steps():
    model, optimizer = job()
    with torch.profiler.profile() as profile:
        losses = [step(model, optimizer) for _ in range(STEPS)]
    return losses, multiplications(profile.key_averages())


def torch_profiler_from_the_middle():
    """Begins within a step and ends within a later one."""
    model, optimizer = job()
    profile = torch.profiler.profile()
    losses = []
    for number in range(STEPS):
        if number == 2:
            profile.start()
        losses.append(step(model, optimizer))
        torch.ones(2, 2) @ torch.ones(2, 2)
        if number == 5:
            profile.stop()
    return losses, multiplications(profile.key_averages())


def torch_profiler_in_every_step():
    model, optimizer = job()
    losses, seen = [], []
    for _ in range(STEPS):
        with torch.autograd.profiler.profile() as profile:
            losses.append(step(model, optimizer))
        seen.append(multiplications(profile.key_averages()))
    return losses, seen


def torch_profiler_on_schedule():
    """The profiler is prepared one step before it records."""
    model, optimizer = job()
    losses, seen = [], []
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=0)
    report = lambda profile: seen.append(multiplications(profile.key_averages()))  # noqa: E731
    with torch.profiler.profile(schedule=schedule, on_trace_ready=report) as profile:
        for _ in range(STEPS):
            losses.append(step(model, optimizer))
            profile.step()
    return losses, seen


def python_profiler_in_every_step():
    model, optimizer = job()
    profile, losses = cProfile.Profile(), []
    for _ in range(STEPS):
        losses.append(profile.runcall(step, model, optimizer))
    calls = {key[2]: value[1] for key, value in pstats.Stats(profile).stats.items() if key[0] == __file__}
    return losses, calls


def profile_function_over_all_steps():
    model, optimizer = job()
    calls = []
    sys.setprofile(lambda frame, event, argument: frame.f_code is step.__code__ and calls.append(event))
    losses = [step(model, optimizer) for _ in range(STEPS)]
    sys.setprofile(None)
    return losses, sorted(calls)


def profile_function_put_back():
    """Each step keeps the profile function that it finds, sets its own, and puts the other one back afterwards."""
    model, optimizer = job()
    calls, losses = [], []
    for _ in range(STEPS):
        found = sys.getprofile()
        sys.setprofile(lambda frame, event, argument: frame.f_code is step.__code__ and calls.append(event))
        losses.append(step(model, optimizer))
        sys.setprofile(found)
    torch.ones(1)
    return losses, (sorted(calls), sys.getprofile() is None)


def forks():
    """Forks in every step; the child computes, trains a little itself, and ends."""
    model, optimizer = job()
    losses, told = [], []
    for _ in range(STEPS):
        losses.append(step(model, optimizer))
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            clean = sys.getprofile() is None and not torch._C._autograd._profiler_enabled()
            os.write(send, f"{clean} {step(*job())}".encode())
            os._exit(0)
        os.waitpid(child, 0)
        told.append(os.read(receive, 1000).decode())
    return losses, told


def threads():
    """Two threads train, each a model of its own; one of them forks."""
    models_and_optimizers = [job(), job()]
    losses = {}

    def train(place):
        random = torch.Generator().manual_seed(place)
        model, optimizer = models_and_optimizers[place]
        for _ in range(STEPS):
            loss = models.loss_of(model, torch.randint(0, 16, (2, 7), generator=random))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.setdefault(place, []).append(float(loss.detach()).hex())
            if place:
                child = os.fork()
                if child == 0:
                    os._exit(0)
                os.waitpid(child, 0)

    other = threading.Thread(target=train, args=(1,))
    other.start()
    train(0)
    other.join()
    return losses[0], losses[1]


class Rows(torch.utils.data.Dataset):
    """Tells whether a profiler is at work where the rows are made."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.arange(7), sys.getprofile() is None and not torch._C._autograd._profiler_enabled()


def workers():
    """An epoch has two steps, so that workers are forked in sampled steps too."""
    model, optimizer = job()
    losses, clean = [], []
    for _ in range(STEPS // 2):
        for ids, flags in DataLoader(Rows(), batch_size=2, num_workers=1):
            loss = models.loss_of(model, ids)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss.detach()).hex())
            clean += flags.tolist()
    return losses, clean


def what_a_sample_records():
    from trueup_instrument.recorder import Recorder

    recorder = Recorder()
    recorder.start()
    with torch.profiler.record_function("named by the user"):
        torch.ones(2, 2) @ torch.ones(2, 2)
    recorder.stop()
    return sorted(recorder.read().counts)
