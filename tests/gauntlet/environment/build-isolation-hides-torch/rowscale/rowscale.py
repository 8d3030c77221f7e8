"""Scales rows to unit length."""


def unit_rows(x):
    return x / x.norm(dim=-1, keepdim=True).clamp_min(1e-6)
