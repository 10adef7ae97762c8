"""Where scalars and sample translations go; each file is one `Sink` of the logbook."""
