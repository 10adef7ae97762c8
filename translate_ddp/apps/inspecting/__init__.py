"""Describes a corpus before training: text, defects, vocabulary, and the time of a training."""
