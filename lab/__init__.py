"""A lab: six exercises in which a student writes DDP, and their grader, `python -m lab.grade`.

The function of an exercise raises NotImplementedError until a student has written it: this is
intended. docs/ddp-lab.md leads through the lab.
"""
