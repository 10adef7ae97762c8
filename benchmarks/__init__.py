"""How fast, how large and how good, side by side with what one would pick instead."""

import os

from translate_ddp.runtime.environment import set_defaults

set_defaults(os.environ)  # as train.py and the commands do; before any of these imports torch
