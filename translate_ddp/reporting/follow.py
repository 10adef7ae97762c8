"""Serves the page of runs on loopback, until the runs have ended and no browser requests it."""

import asyncio
import hashlib
import math
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from translate_ddp.console import print_line
from translate_ddp.errors import UserError
from translate_ddp.reporting.summary import run_state
from translate_ddp.run_record import RECORD_FILES, REPORT_FILE, SETTINGS_FILE, STATUS_FILE
from translate_ddp.serving.server import make_server, run_server

LOOPBACK = "127.0.0.1"
# Pages of other sites may give their own name this address (DNS rebinding).
HOSTS = [LOOPBACK, "localhost"]
SCRIPT = Path(__file__).with_name("follow.js")
# Browsers run the timers of hidden pages once a minute: these must receive the end of the run, too.
IDLE_SECONDS = 90.0
MAX_SECONDS = 30.0  # to receive a request, and to answer it
PAUSES = 10  # times the seconds of a rendering: a training has the cores
SHOWN_FILES = sorted({*RECORD_FILES, STATUS_FILE, SETTINGS_FILE} - {REPORT_FILE})
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "frame-ancestors 'none'",  # not possible within the page
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def follow(
    render: Callable[[str], str],
    folders: Sequence[Path],
    bound: socket.socket,
    on_start: Callable[[], None],
) -> None:
    """Serve the page until SIGTERM, Ctrl-C, or the end of the runs and of the requests.

    `render` makes the page, with a script; it raises UserError if it cannot read a record.
    """

    def has_ended() -> bool:
        return all(run_state(folder) != "running" for folder in folders)

    def stop() -> None:
        runs = "The run has" if len(folders) == 1 else "The runs have"
        print_line(f"{runs} ended, and no browser has requested the page for {IDLE_SECONDS:g} s.")
        server.should_exit = True

    script = SCRIPT.read_text(encoding="utf-8")
    page = FollowedPage(
        partial(render, script), lambda: [record_state(folder) for folder in folders]
    )
    server = make_server(create_app(page, has_ended, stop, IDLE_SECONDS), MAX_SECONDS, on_start)
    run_server(server, bound)


def record_state(folder: Path) -> list[object]:
    """What changes with the record of a run: its state, times and sizes of its files."""
    found: list[object] = [run_state(folder)]
    for name in SHOWN_FILES:
        with suppress(OSError):
            status = (folder / name).stat()
            found.append((name, status.st_mtime_ns, status.st_size))
    return found


class FollowedPage:
    """A page that is rendered again when what it shows has changed."""

    def __init__(self, render: Callable[[], str], state: Callable[[], object]) -> None:
        self._render, self._state = render, state
        self._html, self._etag = "", ""
        self._shown: object = None
        self._not_before = 0.0
        self._lock = threading.Lock()

    def read(self) -> tuple[str, str]:
        """The page and its ETag. Raises UserError if the first one cannot be rendered."""
        with self._lock:  # several browsers wait for one rendering
            state = self._state()
            if not self._html or state != self._shown and time.monotonic() >= self._not_before:
                self._update(state)
            return self._html, self._etag

    def _update(self, state: object) -> None:
        started_at = time.monotonic()
        try:
            self._html = self._render()
        except UserError:  # a new run moves the files of the old one away
            if not self._html:
                raise
        else:
            self._shown = state
            self._etag = f'"{hashlib.sha256(self._html.encode()).hexdigest()}"'
        finally:
            now = time.monotonic()
            self._not_before = now + PAUSES * (now - started_at)


def create_app(
    page: FollowedPage, has_ended: Callable[[], bool], stop: Callable[[], None], idle_seconds: float
) -> Starlette:
    """The application. It calls `stop` once the runs have ended and no request came for a while."""
    requested_at = time.monotonic()

    async def show(request: Request) -> Response:
        nonlocal requested_at
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return Response("Open this page itself.", status_code=403, headers=HEADERS)
        requested_at = math.inf  # to make the page may take longer than a browser stays away
        try:
            html, etag = await asyncio.to_thread(page.read)
        finally:
            requested_at = time.monotonic()
        headers = HEADERS | {"ETag": etag}
        if request.headers.get("If-None-Match") == etag:
            return Response(status_code=304, headers=headers)
        return HTMLResponse(html, headers=headers)

    async def stop_when_unused() -> None:
        while time.monotonic() - requested_at < idle_seconds or not has_ended():
            await asyncio.sleep(min(1.0, idle_seconds))
        stop()

    @asynccontextmanager
    async def watch(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(stop_when_unused())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    return Starlette(
        routes=[Route("/", show, methods=["GET"])],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False)],
        lifespan=watch,
    )
