"""A server with LibreTranslate's routes and a page for the browser; an extra."""
