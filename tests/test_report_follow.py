"""The server of `report --follow`: when it renders, what it answers, and when it ends."""

# ruff: noqa: E402
import os
import signal
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("python_multipart")

from tests.helpers import processes
from tests.helpers.commands import run_translate_ddp
from tests.helpers.followed import followed
from tests.helpers.processes import wait_until
from tests.helpers.records import write_run, write_status
from tests.helpers.served import Client
from translate_ddp.commands import report
from translate_ddp.commands.command_line import parse
from translate_ddp.errors import UserError
from translate_ddp.reporting import follow
from translate_ddp.reporting.follow import PAUSES, FollowedPage
from translate_ddp.run_record import METRICS_FILE


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_run(tmp_path / "run", 2, "running")
    return tmp_path / "run"


class Clock:
    """Time that passes while a page is rendered, and when the test lets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.state = 0
        self.rendered, self.attempts = 0, 0
        self.error: UserError | None = None
        monkeypatch.setattr(follow, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.page = FollowedPage(self.render, lambda: self.state)

    def render(self) -> str:
        self.attempts += 1
        self.now += 2
        if self.error:
            raise self.error
        self.rendered += 1
        return f"page {self.rendered}"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_the_page_is_rendered_again_when_the_record_has_changed(clock: Clock):
    first = clock.page.read()
    clock.now += 1000
    assert clock.page.read() == first and clock.rendered == 1
    clock.state = 1
    second = clock.page.read()
    assert second[0] == "page 2" and second[1] != first[1]


def test_rendering_takes_a_small_part_of_the_time(clock: Clock):
    clock.page.read()
    clock.state, clock.now = 1, clock.now + 2 * PAUSES - 0.1
    assert clock.page.read()[0] == "page 1"
    clock.now += 0.2
    assert clock.page.read()[0] == "page 2"


def test_the_page_stays_while_the_record_cannot_be_read(clock: Clock):
    clock.error = UserError("gone")
    with pytest.raises(UserError, match="gone"):
        clock.page.read()
    clock.error = None
    first = clock.page.read()
    clock.error, clock.state, clock.now = UserError("gone"), 1, clock.now + 1000
    assert clock.page.read() == clock.page.read() == first
    assert clock.attempts == 3  # it is not tried at each request
    clock.error, clock.now = None, clock.now + 1000
    assert clock.page.read()[0] == "page 2"


def test_a_page_is_sent_once_until_it_changes(run: Path):
    with followed(run) as client:
        status, headers, body = client.send("GET", "/")
        assert status == 200 and b"Four geese cross the motorway." in body
        known = {"If-None-Match": headers["ETag"]}
        status, headers, body = client.send("GET", "/", **known)
        assert (status, body, headers["ETag"]) == (304, b"", known["If-None-Match"])
        write_run(run, 3, "running")

        def changed() -> bool:
            return client.send("GET", "/", **known)[0] == 200

        wait_until(changed)
        assert client.send("GET", "/")[1]["ETag"] != known["If-None-Match"]


def test_several_runs_are_followed_on_one_page(run: Path, tmp_path: Path):
    write_run(tmp_path / "other", 1)
    with followed(run, tmp_path / "other") as client:
        assert b"Comparison of 2 runs" in client.send("GET", "/")[2]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_requests_for_another_host_get_no_page(run: Path, host: str):
    # A page of that site could read the answer (DNS rebinding).
    with followed(run) as client:
        status, _, body = client.send("GET", "/", Host=host)
        assert status == 400 and b"html" not in body
        for allowed in (f"localhost:{client.port}", f"127.0.0.1:{client.port}"):
            assert client.send("GET", "/", Host=allowed)[0] == 200


def test_other_sites_can_neither_read_nor_embed_the_page(run: Path):
    with followed(run) as client:
        _, headers, _ = client.send("GET", "/", Origin="https://evil.example")
        assert "Access-Control-Allow-Origin" not in headers
        assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert (
            headers["Referrer-Policy"] == "no-referrer" and headers["Cache-Control"] == "no-cache"
        )
        for site, expected in (
            ("cross-site", 403),
            ("same-site", 403),
            ("same-origin", 200),
            ("none", 200),
        ):
            status, _, body = client.send("GET", "/", **{"Sec-Fetch-Site": site})
            assert status == expected and (b"<!doctype html>" in body) == (status == 200)
        assert client.send("GET", "/config.yaml")[0] == 404
        assert client.send("GET", "/../run/config.yaml")[0] == 404
        assert client.send("POST", "/")[0] == 405


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time of the server, which stands still."""
    found = SimpleNamespace(now=0.0)
    monkeypatch.setattr(follow, "time", SimpleNamespace(monotonic=lambda: found.now))
    return found


def test_the_server_ends_once_the_run_has_ended_and_no_browser_asks(
    run: Path, seconds: SimpleNamespace
):
    ended: list[bool] = []
    with followed(run, has_ended=lambda: bool(ended), idle_seconds=0.2) as client:
        seconds.now += 100
        time.sleep(0.5)
        assert answers(client)  # the run is at work
        ended.append(True)
        seconds.now += 0.3
        assert client.server is not None
        wait_until(lambda: client.server and client.server.should_exit)


def test_the_server_stays_while_a_browser_asks(run: Path, seconds: SimpleNamespace):
    with followed(run, has_ended=lambda: True, idle_seconds=0.2) as client:
        for _ in range(5):
            assert answers(client)
            seconds.now += 0.15
            time.sleep(0.3)


def test_the_server_stays_while_it_makes_the_page(
    run: Path, seconds: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
):
    def render(folders: object, script: str) -> str:
        seconds.now += 100
        time.sleep(0.5)
        return "page"

    monkeypatch.setattr("tests.helpers.followed.render_page_of", render)
    with followed(run, has_ended=lambda: True, idle_seconds=0.2) as client:
        assert answers(client)


def answers(client: Client) -> bool:
    assert client.server is not None
    return client.send("GET", "/")[0] == 200 and not client.server.should_exit


def test_follow_prints_its_address_and_writes_the_page_at_the_end(run: Path, tmp_path: Path):
    flags = ("report", str(run), "--follow")
    job = processes.start(run_translate_ddp, tmp_path / "output", 1, None, flags)
    wait_until(lambda: "Ctrl-C" in job.text() or not job.ranks[0].is_alive(), job.text)
    (address,) = (word for word in job.text().split() if word.startswith("http://127.0.0.1:"))
    client = Client(int(address.rsplit(":", 1)[1]))
    assert b"running" in client.send("GET", "/")[2]
    assert "running" in (run / "report.html").read_text()
    write_status(run, "failed", reason="the disk is full")
    job.signal(signal.SIGTERM)
    text = job.succeed()
    assert text.count(f"Wrote {run / 'report.html'}.") == 2 and "Stopped." in text
    assert "The run has failed: the disk is full" in (run / "report.html").read_text()


def test_follow_gives_way_to_a_training_before_it_makes_a_page(
    run: Path, monkeypatch: pytest.MonkeyPatch
):
    calls: list[object] = []

    def serve(render: object, folders: object, bound: socket.socket, on_start: object) -> None:
        bound.close()
        calls.append("follow")

    monkeypatch.setattr(os, "nice", calls.append)
    monkeypatch.setattr(report, "write_page", lambda path, *_: calls.append(path.name))
    monkeypatch.setattr(follow, "follow", serve)
    report.run(parse(report.ReportConfig, [str(run), "--follow"], "report"))
    assert calls == [10, "report.html", "follow", "report.html"]


def test_a_used_port_is_one_message(run: Path, tmp_path: Path):
    with followed(run) as client:
        flags = ("report", str(run), "--follow", "--port", str(client.port))
        text = processes.start(run_translate_ddp, tmp_path / "output", 1, None, flags).fail()
    assert f"127.0.0.1, port {client.port}" in text and "Traceback" not in text
    assert not (run / "report.html").exists()
    assert (run / METRICS_FILE).exists()
