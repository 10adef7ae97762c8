"""Processes: launch, ranks, supervision, run folder. The only use of torch.distributed."""
