"""The report of a run, from the files in its folder. Nothing here imports torch."""
