"""Runs the application with uvicorn until SIGTERM or Ctrl-C."""

import asyncio
import ipaddress
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from translate_ddp.errors import UserError, first_line

MAX_CONNECTIONS = 1000  # further ones: status 503


def bind(host: str, port: int) -> socket.socket:
    """A socket with this address, which does not listen yet. Raises UserError if that fails."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, UnicodeError) as error:  # UnicodeError: of a name such as `a..b`
        raise unusable(host, port, error) from error
    return bound


def unusable(host: str, port: int, error: OSError | UnicodeError) -> UserError:
    reason = getattr(error, "strerror", None) or first_line(error)
    return UserError(
        f"The server cannot use {host}, port {port}: {reason}. "
        "Pass another address or port, or stop the program that uses this one."
    )


def url_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(bound: socket.socket) -> bool:
    return ipaddress.ip_address(bound.getsockname()[0]).is_loopback


class Connection(H11Protocol):
    """Closes a connection whose next request has no complete header after `header_seconds`.

    uvicorn itself waits for the first header without a limit.
    """

    header_seconds = 30.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is h11.IDLE:  # curl does not encode an address; h11 refuses that
            line, end, rest = data.partition(b"\r\n")
            data = quote(line, bytes(range(128))).encode() + end + rest
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()

    def _watch(self) -> None:
        """Start the clock at the first byte that is awaited, and stop it at a complete header."""
        if self.conn.their_state is not h11.IDLE:
            if self._deadline is not None:
                self._deadline.cancel()
            self._deadline = None
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.header_seconds, self._close_if_idle)

    def _close_if_idle(self) -> None:
        self._deadline = None
        if self.conn.their_state is h11.IDLE and self.transport is not None:
            self.transport.close()


class Server(uvicorn.Server):
    """Calls `on_start` once it accepts connections."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self.on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        for each in sockets or []:
            try:  # two may have bound to an address, but only one can listen
                each.listen(self.config.backlog)
            except OSError as error:
                host, port = each.getsockname()[:2]
                raise unusable(host, port, error) from error
        await super().startup(sockets)
        self.on_start()


def make_server(app: Starlette, max_seconds: float, on_start: Callable[[], None]) -> Server:
    """A server that, when it ends, lets requests finish that take up to `max_seconds`."""
    return Server(
        uvicorn.Config(
            app,
            http=type("Limited", (Connection,), {"header_seconds": max_seconds}),
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=int(max_seconds) + 1,
        ),
        on_start,
    )


def run_server(server: Server, bound: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C, which end the process with exit code 0."""
    # uvicorn raises the signal again after its shutdown, for the handler of before.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    server.run(sockets=[bound])
    print("Stopped.", file=sys.stderr)
