"""Jobs that know how often a step draws random numbers, and how often it draws them again in backward."""

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

STEPS = 4


def train(forward):
    """Train a model of two linear layers, each in a checkpoint."""
    layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    for _ in range(STEPS):
        x = torch.ones(4, 2, 8, 8)
        for layer in layers:
            x = forward(layer, x)
        x.sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def checkpointed(layer, x, within):
    return checkpoint(within, layer, x, use_reentrant=False, preserve_rng_state=False)


def dropout_of_nothing():
    train(lambda layer, x: checkpointed(layer, x, lambda layer, x: F.dropout(layer(x), 0.0)))
    return {"all": 0, "again": 0}


def dropout_outside():
    train(lambda layer, x: checkpointed(layer, F.dropout(x, 0.5), lambda layer, x: layer(x)))
    return {"all": 2, "again": 0}


def dropout_inside():
    train(lambda layer, x: checkpointed(layer, x, lambda layer, x: F.dropout(layer(x), 0.5)))
    return {"all": 4, "again": 2}


def attention_with_dropout():
    def attend(layer, x):
        return F.scaled_dot_product_attention(layer(x), x, x, dropout_p=0.5)

    train(lambda layer, x: checkpointed(layer, x, attend))
    return {"all": 4, "again": 2}
