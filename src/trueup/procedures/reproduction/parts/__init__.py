"""The text of a synthesised script, one file per layer: how it is applied as its maintainers write it."""
