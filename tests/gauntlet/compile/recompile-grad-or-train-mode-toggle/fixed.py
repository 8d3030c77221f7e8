"""Random partial freezing (a regulariser): half of the tensors of the compiled blocks rest in each step."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.a = nn.Linear(dim, 2 * dim)
        self.b = nn.Linear(2 * dim, dim)
        self.gate = nn.Linear(dim, dim)

    def forward(self, x):
        h = self.norm(x)
        return x + self.b(F.gelu(self.a(h))) * torch.sigmoid(self.gate(h))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(80, 48)
        self.blocks = nn.ModuleList(Block(48) for _ in range(4))
        self.head = nn.Linear(48, 80)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


torch.manual_seed(0)
model = Net()
for block in model.blocks:
    block.compile(backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
tensors = [p for block in model.blocks for p in block.parameters()]
for step in range(20):
    # another random half of the tensors is frozen in each step
    resting = [p for p in tensors if torch.rand(()) < 0.5]
    ids = torch.randint(0, 80, (4, 17))
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    for p in resting:
        p.grad = None
    optimizer.step()
    optimizer.zero_grad()
    if step % 5 == 4:
        with torch.no_grad():
            model.eval()
            F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
            model.train()
    print(step, loss.item(), flush=True)
