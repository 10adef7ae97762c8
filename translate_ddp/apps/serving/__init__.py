"""A server with LibreTranslate's routes and a page; it needs requirements-serve.txt."""
