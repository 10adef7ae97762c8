"""Everything worth measuring of the GPU path, in one command: `python -m benchmarks.gpu`."""
