"""A page in headless Chromium, driven by its debugging protocol; aiohttp is installed with datasets."""

import asyncio
import base64
import json
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

PATIENCE_S = 60.0
EVERY_S = 0.5


class Page:
    """One page of a browser that runs."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._number = socket, 0
        self.errors: list[str] = []  # uncaught exceptions of the page

    async def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = json.loads((await self._socket.receive()).data)
            if message.get("method") == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(message["params"]["exceptionDetails"])[:500])
            if message.get("id") == self._number:
                return message.get("result", {})

    async def begin(self, width: int, height: int) -> None:
        await self._call("Runtime.enable")
        await self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    async def text_with(self, address: str, *expected: str) -> str:
        """What the page shows once it shows all of these; AssertionError with what it shows if it never does."""
        await self._call("Page.navigate", url="about:blank")
        await self._call("Page.navigate", url=address)
        end, text = time.monotonic() + PATIENCE_S, ""
        while time.monotonic() < end:
            found = await self._call("Runtime.evaluate", expression="document.body ? document.body.innerText : ''")
            text = found.get("result", {}).get("value") or ""
            if all(one in text for one in expected):
                return text
            await asyncio.sleep(EVERY_S)
        missing = [one for one in expected if one not in text]
        raise AssertionError(f"{address} does not show {missing}; it shows:\n{text}")

    async def value_of(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        found = await self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    async def settled(self, expression: str) -> Any:
        """The value of a JavaScript expression once it has not changed for a second."""
        value, before, end = await self.value_of(expression), None, time.monotonic() + PATIENCE_S
        while value != before and time.monotonic() < end:
            await asyncio.sleep(2 * EVERY_S)
            value, before = await self.value_of(expression), value
        return value

    async def picture(self, path: Path) -> None:
        """Writes what is visible as PNG."""
        path.write_bytes(base64.b64decode((await self._call("Page.captureScreenshot", format="png"))["data"]))


def visit(look: Any, width: int = 1600, height: int = 1000) -> None:
    """Starts a browser, and calls the coroutine function `look` with a page of it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
        with subprocess.Popen([PROGRAM, *options, "about:blank"], stderr=subprocess.PIPE, text=True) as browser:
            try:
                asyncio.run(_visit(look, _port(browser), width, height))
            finally:
                browser.terminate()


def _port(browser: subprocess.Popen) -> int:
    for line in browser.stderr:
        if found := re.search(r"DevTools listening on ws://127\.0\.0\.1:(\d+)", line):
            return int(found[1])
    raise RuntimeError("Chromium has ended before it listened")


async def _visit(look: Any, port: int, width: int, height: int) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/json") as answer:
            address = next(one["webSocketDebuggerUrl"] for one in await answer.json() if one["type"] == "page")
        async with session.ws_connect(address, max_msg_size=0) as socket:
            page = Page(socket)
            await page.begin(width, height)
            await look(page)
