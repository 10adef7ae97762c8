"""Writes trained models in the formats of other programs, with a proof that they are the same."""
