"""Processes: launch, ranks, watchdog, run folder. Only here is torch.distributed imported."""
