"""The configuration of a run.

`translate_ddp/settings.py` has every setting with its default, `translate_ddp/presets.py` the
presets, and `translate_ddp/apps/commands/train.py` reads them from the command line and YAML files.
"""

from translate_ddp.apps.commands.train import parse, parse_with_names
from translate_ddp.presets import PRESETS
from translate_ddp.settings import Config

__all__ = ["PRESETS", "Config", "parse", "parse_with_names"]
