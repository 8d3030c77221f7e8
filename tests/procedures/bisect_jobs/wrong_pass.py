"""A compiled block, with a pass of the user's own over Inductor's graphs that forgets a factor."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass

STEPS = 4
aten = torch.ops.aten


class MergeScales(CustomGraphPass):
    """(x * a) * b as one multiplication: by b, where a * b was meant."""

    def __call__(self, graph):
        for node in list(graph.nodes):
            if node.target is aten.mul.Tensor and isinstance(node.args[1], float):
                inner = node.args[0]
                if inner.target is aten.mul.Tensor and isinstance(inner.args[1], float):
                    node.args = (inner.args[0], node.args[1])
        graph.eliminate_dead_code()

    def uuid(self):
        return "merge-scales-1"


config.post_grad_custom_post_pass = MergeScales()


class Scaled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return x + F.gelu(self.linear(x) * 0.5 * 3.0)


torch.manual_seed(0)
model = nn.Sequential(Scaled(16), nn.Linear(16, 4))
model[0].compile()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(STEPS):
    x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
