"""Self-contained pages with tables and charts: one file, without scripts or other requests."""
