"""What the server of forked ranks loads once, for all of them."""

from translate_ddp.apps.commands.train import parse
from translate_ddp.data.languages import language_identifier

language_identifier()
parse([])  # tyro keeps the help texts
