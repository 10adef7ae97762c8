"""Measurements of speed, memory and quality, beside the alternatives that users have."""

import os

from translate_ddp.runtime.environment import set_defaults

set_defaults(os.environ)  # as train.py and the commands do; must precede the import of torch
