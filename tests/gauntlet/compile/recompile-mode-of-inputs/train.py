"""A score network: the input requires a gradient in some steps (penalty), evaluation follows each epoch."""

import torch
import torch.nn as nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 64)
        self.drop = nn.Dropout(0.1)
        self.last = nn.Linear(64, 1)

    def forward(self, x, y):
        return self.last(self.drop(torch.tanh(self.first(x + y))))


torch.manual_seed(0)
torch._dynamo.config.recompile_limit = 4
critic = Critic()
critic.compile(backend="aot_eager")
optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
for step in range(16):
    critic.train(step % 4 != 3)
    x = torch.randn(32, 16, requires_grad=step % 2 == 0)
    y = torch.randn(32, 16, requires_grad=step % 3 == 0)
    loss = critic(x, y).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        critic(x.detach(), y.detach())
    print(step, loss.item(), flush=True)
