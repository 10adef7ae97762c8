"""What the server of forked ranks loads once, for all of them."""

from translate_ddp.data.direction import language_identifier

language_identifier()
