"""A lab: six exercises in which a student writes DDP, and their grader, `python -m lab.grade`.

A student writes the functions that raise NotImplementedError; docs/ddp-lab.md is the guide.
"""
