"""`translate-ddp COMMAND`: one file per command."""
