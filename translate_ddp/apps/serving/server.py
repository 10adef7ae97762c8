"""Runs the application with uvicorn, and replaces its model when a newer one appears."""

import asyncio
import ipaddress
import re
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from translate_ddp.apps.serving.batching import ARRIVAL_SECONDS, BYTES_PER_SECOND
from translate_ddp.console import print_line
from translate_ddp.errors import UserError, first_line
from translate_ddp.modeling.ctranslate2_engine import DESCRIPTION
from translate_ddp.translator import Translator

MAX_CONNECTIONS = 1000  # further ones: status 503
BACKLOG = 2048  # connections that wait to be accepted, as of uvicorn
# Checkpoints, and the weights and the description of exported models.
MODEL_FILES = re.compile(rf"[^.].*\.(?:pt|bin)|{re.escape(DESCRIPTION)}")
Files = dict[Path, tuple[int, int]]  # time of the last change in ns, and size in bytes


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on this address. Raises UserError if that fails."""
    try:
        # Without a host it would listen on all addresses.
        found = socket.getaddrinfo(host or ".", port, type=socket.SOCK_STREAM)
        # A name with addresses of both kinds has clients of IPv4.
        family, *_, address = min(found, key=lambda each: each[0] != socket.AF_INET)
        both = address[0] == "::"  # all addresses, also of IPv4
        return socket.create_server(
            address[:2], family=family, backlog=BACKLOG, dualstack_ipv6=both
        )
    except (OSError, UnicodeError) as error:  # UnicodeError: of a name such as `a..b`
        reason, *_ = (getattr(error, "strerror", None) or first_line(error)).split(" (while ")
        raise UserError(
            f"The server cannot use {host}, port {port}: {reason}. "
            "Pass another address or port, or stop the program that uses this one."
        ) from error


def url_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(bound: socket.socket) -> bool:
    return ipaddress.ip_address(bound.getsockname()[0]).is_loopback


class Connection(H11Protocol):
    """A connection that is closed when its client is slow: uvicorn waits without a limit.

    The head of a request has to arrive, and an answer to be read, within `seconds` of the start or
    of the last answer. `read_fields` limits the time of a body.
    """

    seconds = ARRIVAL_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self._start()

    def on_response_complete(self) -> None:
        self._timer.cancel()
        self._timer = self._start()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def _start(self) -> asyncio.TimerHandle:
        delay = self.seconds + self.transport.get_write_buffer_size() / BYTES_PER_SECOND
        return self.loop.call_later(delay, self._end)

    def _end(self) -> None:
        if self.cycle and not self.cycle.response_complete and not self.flow.write_paused:
            self._timer = self._start()  # the request is read or translated
        else:
            self.transport.abort()


def make_server(app: Starlette, max_seconds: float) -> uvicorn.Server:
    """A server that, when it ends, lets requests finish that take up to `max_seconds`."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            log_level="error",  # no line for each request that is none
            access_log=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=int(max_seconds) + 1,
        )
    )


def run_server(server: uvicorn.Server, bound: socket.socket, message: str) -> None:
    """Print the message, and serve until SIGTERM or Ctrl-C, which end it with exit code 0."""

    def stop(*_: object) -> None:  # before uvicorn's handlers; it also raises the signal again
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    print_line(message)
    server.run(sockets=[bound])
    print_line("Stopped.", sys.stderr)


def model_files(path: Path) -> Files:
    """The model files of a folder, or the file itself, as they are now."""
    found: Files = {}
    with suppress(OSError):  # deleted meanwhile: the next call finds what is left
        for file in path.iterdir() if path.is_dir() else [path]:
            if MODEL_FILES.fullmatch(file.name) and file.is_file():
                found[file] = (file.stat().st_mtime_ns, file.stat().st_size)
    return found


class ServedModel:
    """The translator that answers requests: `translator` is the newest that could be used."""

    def __init__(
        self, path: Path, open_model: Callable[[], Translator], report: Callable[[str], None]
    ) -> None:
        """Open the model; raises UserError. `path` is the folder or the file that is observed."""
        self.path = path
        self._open, self._report = open_model, report
        # Before the model is opened: a file that appears meanwhile is a newer one.
        self._opened = self._seen = model_files(path)
        self.translator = open_model()

    def check(self) -> None:
        """Open the model again if there are new or changed files, and replace the present one.

        A file that has changed since the last check may be incomplete, and is left to the next one.
        Errors are reported; the present translator then stays. A damaged checkpoint in a folder is
        skipped with a message.
        """
        found = model_files(self.path)
        if found != self._seen:
            self._seen = found
            return
        new, self._opened = found.items() - self._opened.items(), found
        if not new:
            return
        try:
            self._replace()
        except Exception as error:  # after any error the present model stays
            reason = str(error) if isinstance(error, UserError) else first_line(error)
            self._report(
                f"{max(new)[0]} is not used: {reason.rstrip('.')}. The model stays as it is."
            )

    def _replace(self) -> None:
        """Open the model again. Raises UserError if it cannot be used."""
        translator = self._open()
        source, target = translator.directions[0]
        # Weights that are not numbers raise an error here.
        translator.translate(["a"], to=target, source=source)
        # With the same weights, the new file is another checkpoint than the chosen one.
        if translator.identity != self.translator.identity:
            self.translator = translator
            self._report(f"Opened the model again: {translator.name}.")
