"""Servers on loopback whose page changes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.processes import wait_until
from tests.helpers.served import Client
from translate_ddp.commands.report import render_page_of
from translate_ddp.reporting.follow import SCRIPT, FollowedPage, create_app, record_state
from translate_ddp.serving.server import bind, make_server


@contextmanager
def followed(
    *folders: Path,
    has_ended: Callable[[], bool] = lambda: False,
    idle_seconds: float = 100.0,
) -> Iterator[Client]:
    """A server in a thread with the page of the runs."""
    script = SCRIPT.read_text(encoding="utf-8")
    page = FollowedPage(
        lambda: render_page_of(folders, script), lambda: [record_state(each) for each in folders]
    )

    def stop() -> None:
        server.should_exit = True

    bound = bind("127.0.0.1", 0)
    server = make_server(create_app(page, has_ended, stop, idle_seconds), 30, lambda: None)
    thread = threading.Thread(target=server.run, args=([bound],))
    port = bound.getsockname()[1]
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        yield Client(port, server)
    finally:
        stop()
        thread.join()
