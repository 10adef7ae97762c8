"""`python -m benchmarks.time_to_quality`: minutes of training until a validation BLEU."""
