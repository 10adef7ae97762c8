"""All measurements of the GPU path, in one command: `python -m benchmarks.gpu`."""
