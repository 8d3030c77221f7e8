"""trueup: see the PyTorch training stack that really ran, and make it what was asked for."""

__version__ = "0.1.0"
