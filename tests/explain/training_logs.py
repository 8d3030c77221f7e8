"""Short training runs that go well, warnings and all; each one's output is a file: `training_logs.py FOLDER`.

One process, so that torch is imported once. Prints, last, how many logs it wrote.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn

STEPS = 6


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))


def _train(step: Callable[[nn.Module, torch.Tensor], torch.Tensor] | None = None, **options: object) -> None:
    model = _model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for number in range(STEPS):
        loss = (step or (lambda m, x: m(x).square().mean()))(model, torch.randn(4, 8))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {number} loss {loss.item():.4f} {options or ''}")


def scheduler_before_optimizer() -> None:
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    scheduler.step()
    optimizer.step()
    _train()


def dataloader_with_many_workers() -> None:
    torch.utils.data.DataLoader(list(range(4)), num_workers=64)
    _train()


def broadcast_in_loss() -> None:
    nn.MSELoss()(torch.zeros(3, 1), torch.zeros(3))
    _train()


def tensor_from_tensor() -> None:
    torch.tensor(torch.ones(2))
    _train()


def full_backward_hook() -> None:
    model = _model()
    model.register_full_backward_hook(lambda module, given, made: None)
    model(torch.randn(2, 8)).sum().backward()
    _train()


def autocast_bf16() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        _train()


def autocast_cuda_without_cuda() -> None:
    with torch.autocast("cuda"):
        _train()


def scaler_without_cuda() -> None:
    torch.amp.GradScaler("cuda")
    _train()


def compiled() -> None:
    model = torch.compile(_model(), backend="eager")
    for _ in range(3):
        model(torch.randn(2, 8)).sum().backward()
    print("trained compiled")


def checkpointed() -> None:
    from torch.utils.checkpoint import checkpoint

    _train(lambda model, x: checkpoint(model, x, use_reentrant=False).square().mean())


def clipped() -> None:
    model = _model()
    model(torch.randn(2, 8)).sum().backward()
    print("grad norm", torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))


def nan_is_skipped() -> None:
    print("loss is nan, skipping this batch (1 of 1000)")
    _train()


def evaluation() -> None:
    model = _model().eval()
    with torch.no_grad():
        print("eval loss", model(torch.randn(4, 8)).square().mean().item())


def nested_tensor() -> None:
    torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    _train()


def encoder_with_norm_first() -> None:
    nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, norm_first=True, batch_first=True), 2)(torch.randn(1, 3, 8))
    _train()


def caught_failure() -> None:
    try:
        torch.ones(2, 3) @ torch.ones(2, 3)
    except RuntimeError as error:
        print(f"caught and handled: {error}")
    _train()


def shape_error() -> None:
    with contextlib.suppress(SystemExit):
        try:
            nn.Linear(4, 4)(torch.ones(2, 3))
        except RuntimeError:
            traceback.print_exc()


def index_error() -> None:
    try:
        nn.Embedding(4, 4)(torch.tensor([9]))
    except IndexError:
        traceback.print_exc()


def target_error() -> None:
    try:
        nn.CrossEntropyLoss()(torch.randn(2, 3), torch.tensor([0, 7]))
    except (IndexError, RuntimeError):
        traceback.print_exc()


def missing_keys() -> None:
    try:
        _model().load_state_dict({})
    except RuntimeError:
        traceback.print_exc()


def in_place_error() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y += 1
    try:
        y.sum().backward()
    except RuntimeError:
        traceback.print_exc()


def second_backward() -> None:
    x = torch.ones(3, requires_grad=True)
    y = x.exp().sum()
    y.backward()
    try:
        y.backward()
    except RuntimeError:
        traceback.print_exc()


def config_of_a_model() -> None:
    from transformers import LlamaConfig

    print(LlamaConfig())


def tiny_llama() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2)
    )
    ids = torch.randint(0, 64, (2, 8))
    for number in range(3):
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        print({"loss": round(loss.item(), 4), "epoch": number})


RUNS = [
    value
    for value in list(globals().values())
    if callable(value) and getattr(value, "__module__", "") == __name__ and not value.__name__.startswith("_")
]
STYLES = ("plain", "always", "logged")


@contextlib.contextmanager
def _into(path: Path) -> Iterator[None]:
    with path.open("w") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        yield


def _main(target: Path) -> int:
    count = 0
    for run in RUNS:
        for style in STYLES:
            with _into(target / f"training-{run.__name__}-{style}.log"), warnings.catch_warnings():
                warnings.simplefilter("default" if style == "plain" else "always")
                if style == "logged":
                    logging.basicConfig(stream=sys.stderr, level=logging.INFO, force=True)
                    logging.info("run %s begins", run.__name__)
                run()
            count += 1
    return count


if __name__ == "__main__":
    print(_main(Path(sys.argv[1])))
