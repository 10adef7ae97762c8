"""Drives a headless Chromium through the DevTools protocol over two pipes."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from tests.helpers.processes import wait_until

NAMES = ("chromium", "chromium-browser", "google-chrome")
COMMAND = next((path for name in NAMES if (path := shutil.which(name))), None)
FLAGS = ["--headless", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run"]
# Containers lack what the sandbox needs, and shared memory. Only our own page is opened.
FLAGS += ["--no-sandbox", "--disable-dev-shm-usage"]
CONTROL_KEYS = {"\n": ("Enter", "\r"), "\t": ("Tab", "")}  # name and text


class Browser:
    """A page of Chromium."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        self._requests, self._answers = requests, answers
        self._count = 0
        self._session: str | None = None
        self.log: list[str] = []  # of the console, errors included
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a method of the protocol. Raises AssertionError with its error."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._requests.write(json.dumps(message).encode() + b"\0")
        self._requests.flush()
        while (answer := self._read()).get("id") != self._count:
            if answer.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.log.append(json.dumps(answer["params"]))
        assert "error" not in answer, answer
        return answer["result"]

    def _read(self) -> dict[str, Any]:
        data = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser has ended"
            data += byte
        return json.loads(data)

    def open(
        self, url: str, width: int, height: int, dark: bool = False, ready: str = "true"
    ) -> None:
        """Open a page in a window of that size, and wait until its expression `ready` holds."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=url)
        self.wait_for(f"document.readyState === 'complete' && {ready}")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, which must be JSON."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    def wait_for(self, condition: str) -> None:
        wait_until(lambda: self.evaluate(f"Boolean({condition})"), self.text)

    def type(self, text: str) -> None:
        """Type into what has the focus, one key after the other."""
        for character in text:
            if character in CONTROL_KEYS:
                self.press(character)
            else:
                self.call("Input.dispatchKeyEvent", type="keyDown", key=character, text=character)
                self.call("Input.dispatchKeyEvent", type="keyUp", key=character)

    def press(self, character: str) -> None:
        """Press Enter or Tab."""
        name, text = CONTROL_KEYS[character]
        key = {"key": name, "code": name, "windowsVirtualKeyCode": ord(text or character)}
        self.call("Input.dispatchKeyEvent", type="keyDown", **key, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **key)

    def undo(self) -> None:
        """Press Ctrl+Z, with the command that it has in a browser with a window."""
        key = {"key": "z", "code": "KeyZ", "modifiers": 2, "commands": ["undo"]}
        self.call("Input.dispatchKeyEvent", type="keyDown", **key)
        self.call("Input.dispatchKeyEvent", type="keyUp", key="z", code="KeyZ")

    def text(self) -> str:
        """The visible text of the page."""
        return self.evaluate("document.body.innerText")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A running browser with a new profile."""
    assert COMMAND, "Chromium is not installed"
    request_end, requests = os.pipe()
    answers, answer_end = os.pipe()
    # Chromium reads descriptor 3 and writes descriptor 4.
    shell = f'exec "$@" 3<&{request_end} 4>&{answer_end}'
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = subprocess.Popen(
            ["bash", "-c", shell, "sh", COMMAND, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(request_end, answer_end),
            stderr=subprocess.DEVNULL,
        )
        os.close(request_end)
        os.close(answer_end)
        try:
            with open(requests, "wb") as writer, open(answers, "rb") as reader:
                yield Browser(writer, reader)
        finally:
            browser.terminate()
            browser.wait()
