"""The Transformer, its loss, its precision and decoding."""
