"""One optimizer step, the training loop, validation, checkpoints and logging."""
