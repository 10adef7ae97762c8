"""What the server of forked ranks loads once, for all of them."""

from translate_ddp.data.languages import language_identifier

language_identifier()
