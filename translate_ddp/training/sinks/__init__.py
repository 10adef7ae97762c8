"""The destinations of scalars and sample translations; each file has one `Sink`."""
