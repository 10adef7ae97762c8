"""Tests with a real Slurm."""
