"""Writes trained models in the formats of other programs, and verifies that they are the same."""
