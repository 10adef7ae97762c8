"""Training of an encoder-decoder Transformer with PyTorch DDP, and translation with it."""

__version__ = "0.2.0"
