"""`python -m benchmarks.recipe`: trains a recipe, scores it by a fixed protocol, and compares."""
