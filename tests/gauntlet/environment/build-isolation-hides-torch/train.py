"""Metric learning on unit rows; start.sh installs the company's package first."""

import torch
from rowscale import unit_rows


def main():
    torch.manual_seed(3)
    encoder = torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.SiLU(), torch.nn.Linear(32, 8))
    centres = torch.nn.Parameter(torch.randn(4, 8))
    optimizer = torch.optim.Adam([*encoder.parameters(), centres], lr=4e-3)
    for step in range(20):
        label = torch.randint(0, 4, (32,))
        x = torch.randn(32, 12) * 0.4 + torch.nn.functional.one_hot(label, 12)
        loss = torch.nn.functional.cross_entropy(5 * unit_rows(encoder(x)) @ unit_rows(centres).T, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(step, f"{loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
