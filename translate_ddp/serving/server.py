"""Runs the application with uvicorn until SIGTERM or Ctrl-C."""

import ipaddress
import signal
import socket
import sys
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette

from translate_ddp.errors import UserError

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
    except OSError as error:
        raise UserError(
            f"The server cannot use {host}, port {port}: {error.strerror}. "
            "Pass another --host or --port, or stop the program that uses this one."
        ) from error
    return bound


def url_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(bound: socket.socket) -> bool:
    return ipaddress.ip_address(bound.getsockname()[0]).is_loopback


class Server(uvicorn.Server):
    """Calls `on_start` once it accepts connections."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self.on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.on_start()


def make_server(app: Starlette, max_seconds: float, on_start: Callable[[], None]) -> Server:
    """A server that, when it ends, lets requests finish that take up to `max_seconds`."""
    return Server(
        uvicorn.Config(
            app,
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
