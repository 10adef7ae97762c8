"""The one exception that speaks to the person who started the program."""


class UserError(Exception):
    """Something its reader can mend: what was asked, what was found, what to do.

    The front doors (`train.py`, `python -m translate_ddp`) print the text once, on the main rank,
    and exit with code 2 and no traceback.
    """
