"""Trains an encoder-decoder Transformer for translation, on one process or many, and uses it."""

__version__ = "0.2.0"
