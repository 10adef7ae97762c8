"""What is compared by `benchmarks.preparation`: one contestant per file."""
