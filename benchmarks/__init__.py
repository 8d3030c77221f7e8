"""Measurements against the budgets of the design. Run `make bench`; the figures in docs/performance.md come from it."""
