"""Self-contained pages with tables and charts: one file, with no request to anywhere."""
