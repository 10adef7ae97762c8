"""Tests of the server need the libraries of requirements-serve.txt."""

from importlib.util import find_spec

LIBRARIES = ("starlette", "uvicorn", "python_multipart")
collect_ignore_glob = [] if all(map(find_spec, LIBRARIES)) else ["test_serve*.py"]
