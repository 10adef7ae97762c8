"""`python -m translate_ddp COMMAND`: one file per command."""
