"""Trains an encoder-decoder Transformer for translation with PyTorch DDP, and uses it."""
