"""Trains an encoder-decoder Transformer for translation with PyTorch DDP, and uses it."""

__version__ = "0.2.0"
