"""The Transformer, its loss and its search."""
