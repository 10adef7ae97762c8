"""The followed page in a headless Chromium: it changes, and keeps what its reader has chosen."""

# ruff: noqa: E402
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("python_multipart")

from collections.abc import Iterator
from pathlib import Path

from tests.helpers import browser
from tests.helpers.browser import Browser
from tests.helpers.followed import followed
from tests.helpers.records import write_run, write_status

pytestmark = pytest.mark.skipif(browser.COMMAND is None, reason="Chromium is not installed")
STATE = "document.querySelector('.tiles dd').textContent"
REPLACED = "!document.querySelector('main').isOld"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.chromium() as found:
        yield found


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_run(tmp_path, 3, "running")
    return tmp_path


def open_page(page: Browser, port: int) -> None:
    """Open the page, and mark its content as old."""
    page.log.clear()
    page.open(f"http://127.0.0.1:{port}/", 800, 600)
    page.wait_for("document.querySelector('main')")
    page.evaluate("document.querySelector('main').isOld = true")


def test_the_page_changes_with_the_run(chromium: Browser, run: Path):
    with followed(run) as client:
        open_page(chromium, client.port)
        assert chromium.evaluate(STATE) == "running"
        write_status(run, "finished")
        chromium.wait_for(f"{STATE} === 'finished'")
        write_run(run, 4, "running")
        chromium.wait_for(f"{STATE} === 'running'")
        assert chromium.log == []


def test_the_choices_of_the_reader_stay(chromium: Browser, run: Path):
    with followed(run) as client:
        open_page(chromium, client.port)
        chromium.evaluate("document.getElementById('axis-time').click()")
        chromium.evaluate("[...document.querySelectorAll('details')].at(-1).open = true")
        chromium.evaluate("document.querySelector('summary').focus({preventScroll: true})")
        chromium.evaluate("scrollTo(0, 700)")
        before = chromium.evaluate("scrollY")
        chromium.wait_for(REPLACED)
        assert chromium.evaluate("document.getElementById('axis-time').checked")
        opened = "[...document.querySelectorAll('details')].map((each) => each.open)"
        assert chromium.evaluate(opened)[-1] and not chromium.evaluate(opened)[0]
        assert chromium.evaluate("document.activeElement === document.querySelector('summary')")
        assert chromium.evaluate("scrollY") == before > 0
        assert chromium.log == []


def test_what_is_unfolded_stays_when_an_earlier_part_is_new(chromium: Browser, tmp_path: Path):
    write_run(tmp_path, 3, "running")
    (tmp_path / "validation.json").rename(tmp_path / "later")
    with followed(tmp_path) as client:
        open_page(chromium, client.port)
        chromium.evaluate("document.querySelector('#settings details').open = true")
        (tmp_path / "later").rename(tmp_path / "validation.json")
        chromium.wait_for("document.querySelector('#validation details')")
        opened = "[...document.querySelectorAll('details[open]')].map((e) => e.parentNode.id)"
        assert chromium.evaluate(opened) == ["settings"]


SELECTS = "getSelection().selectAllChildren(document.querySelector('h1'))"
POINTS = "document.querySelector('svg').dispatchEvent(new Event('pointermove', {bubbles: true}))"


@pytest.mark.parametrize("act", [SELECTS, POINTS], ids=["selects", "points"])
def test_nothing_changes_while_the_reader_acts(chromium: Browser, run: Path, act: str):
    with followed(run) as client:
        open_page(chromium, client.port)
        chromium.evaluate(
            "window.looks = 0, window.original = fetch, window.fetch = (...words) => "
            f"{{ looks += 1; {act}; return original(...words); }}, 0"
        )
        write_status(run, "finished")
        chromium.wait_for("looks === 3")
        assert chromium.evaluate(STATE) == "running" and not chromium.evaluate(REPLACED)
        chromium.evaluate("window.fetch = original, getSelection().removeAllRanges(), 0")
        chromium.wait_for(f"{STATE} === 'finished'")


def test_the_end_of_the_server_is_shown(chromium: Browser, run: Path):
    with followed(run) as client:
        open_page(chromium, client.port)
        chromium.wait_for(REPLACED)
    chromium.wait_for("document.body.innerText.includes('The server has ended')")
    assert chromium.evaluate(STATE) == "running"
