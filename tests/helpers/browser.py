"""A headless Chromium, driven by the DevTools protocol over a pair of pipes: what tests need of a browser, without a driver.

https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import tools
from child_processes import started

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe", "--no-first-run"),
    *("--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding"),
    *("--disable-background-networking", "--disable-component-update", "--disable-breakpad", "--disable-hang-monitor"),
)
"""The last two lines: a page that nobody looks at is as fast as any other, and nothing is fetched or asked beside it."""
CHROMIUM_READS, CHROMIUM_WRITES = 3, 4
"""File descriptors of the pipes in the browser's process."""
PATIENCE_S, EVERY_S = 120.0, 0.5
"""How long a page may take to fill itself and the browser to answer, and how often a page is looked at."""
CACHE = Path(__file__).resolve().parents[2] / ".cache"
AXE = CACHE / "axe_playwright_python" / "axe.min.js"


def axe_core() -> str:
    """The script of axe-core."""
    if not AXE.is_file():
        tools.missing("axe-core")
    return AXE.read_text()


def _message(thrown: dict[str, Any]) -> str:
    return thrown.get("exception", {}).get("description", thrown["text"])


class Page:
    """One tab. What its console reports is collected in `errors`, uncaught exceptions in `exceptions` too."""

    def __init__(self, to_browser: BinaryIO, from_browser: BinaryIO):
        self._to, self._from, self._numbers, self._session = to_browser, from_browser, itertools.count(1), None
        self._rest = b""
        self._events: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.exceptions: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """The result of a command; RuntimeError where the browser refuses it."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params} | ({"sessionId": self._session} if self._session else {})
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()
        while (answer := self._receive()).get("id") != number:
            self._note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE_S
        while b"\0" not in self._rest:
            if not select.select([self._from], [], [], max(0.0, end - time.monotonic()))[0]:
                self._to.close()  # a page whose process has crashed never answers: what follows fails at once
                raise RuntimeError(f"the browser has said nothing for {PATIENCE_S:.0f} s")
            content = os.read(self._from.fileno(), 1 << 16)
            if not content:
                raise RuntimeError("the browser has ended")
            self._rest += content
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        self._events.append(event)
        params = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            self.exceptions.append(_message(params["exceptionDetails"]))
            self.errors.append(self.exceptions[-1])
        elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str(params["args"]))
        elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])

    def requests(self) -> list[str]:
        """Addresses of all that was asked for."""
        return [one["params"]["request"]["url"] for one in self._events if one["method"] == "Network.requestWillBeSent"]

    def show(self, width: int, height: int = 900, scheme: str = "light", media: str = "screen") -> None:
        """Size in CSS pixels, `light` or `dark`, `screen` or `print`."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address: str) -> None:
        """Returns when the page is loaded."""
        self._events.clear()
        self.call("Page.navigate", url=address)
        while not any(one["method"] == "Page.loadEventFired" for one in self._events):
            self._note(self._receive())

    def text_with(self, address: str, *expected: str) -> str:
        """What a page that fills itself shows, once it shows all of these; AssertionError where it never does."""
        self.open("about:blank")  # a change behind the # alone loads nothing
        self.open(address)
        end, text = time.monotonic() + PATIENCE_S, ""
        while time.monotonic() < end:
            text = self.run("document.body ? document.body.innerText : ''")
            if all(one in text for one in expected):
                return text
            time.sleep(EVERY_S)
        raise AssertionError(f"{address} does not show {[one for one in expected if one not in text]}; it shows:\n{text}")

    def settled(self, script: str) -> Any:
        """The value of an expression once it has not changed for a second."""
        value, before, end = self.run(script), None, time.monotonic() + PATIENCE_S
        while value != before and time.monotonic() < end:
            time.sleep(2 * EVERY_S)
            value, before = self.run(script), value
        return value

    def run(self, script: str) -> Any:
        """The value of an expression, awaited; RuntimeError with what it throws."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise RuntimeError(_message(done["exceptionDetails"]))
        return done["result"].get("value")

    def press(self, key: str) -> None:
        """A key by its name, such as Tab or ArrowRight."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}
        text = {"text": "\r"} if key == "Enter" else {}
        for kind, more in (("keyDown", text), ("keyUp", {})):
            code = codes[key]
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)

    def write(self, text: str) -> None:
        """Into what has the focus."""
        self.call("Input.insertText", text=text)

    def point(self, x: float, y: float) -> None:
        """Moves the mouse there."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path: Path, whole: bool = False) -> None:
        """A PNG of what is seen, or of the whole page."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextlib.contextmanager
def chromium(folder: Path) -> Iterator[Page]:
    """A tab of a new browser whose profile is in this folder; the browser ends with the block."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        tools.missing("chromium")
    (reads, to_browser), (from_browser, writes) = os.pipe(), os.pipe()

    def connect() -> None:
        high = [os.dup(end) for end in (reads, writes)]  # either may be 3 or 4 itself
        for end, place in zip(high, (CHROMIUM_READS, CHROMIUM_WRITES), strict=True):
            os.dup2(end, place)

    command = [program, *OPTIONS, f"--user-data-dir={folder}"]
    output = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with started(command, preexec_fn=connect, close_fds=False, **output):
        os.close(reads)
        os.close(writes)
        with os.fdopen(to_browser, "wb") as to, os.fdopen(from_browser, "rb") as back:
            yield Page(to, back)
