# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium for the tests of pages, spoken to by the DevTools protocol over its pipe.

`--remote-debugging-pipe` needs neither a port nor a package: JSON messages, each ended by a zero
byte, read by the browser from descriptor 3 and written to 4. The network is off: names do not
resolve, and the page is put offline.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # a container's /dev/shm is small
    "--disable-background-networking",
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
_DEADLINE_S = 60.0
_KEYS = {"Tab": (9, ""), "Enter": (13, "\r")}  # code, and the text that it types


def find() -> str | None:
    """Return the path of the program, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class BrowserError(Exception):
    """The browser refused a command, or did not answer in time."""


class Page:
    """One tab. `complaints` are console messages and exceptions; `requests` what was asked for."""

    def __init__(self, to: IO[bytes], back: IO[bytes]) -> None:
        self._to, self._back = to, back
        self._number = 0
        self._rest = b""
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send(
            "Network.emulateNetworkConditions",
            offline=True,
            latency=0,
            downloadThroughput=0,
            uploadThroughput=0,
        )

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its answer. Raise BrowserError if it is refused or late."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()
        deadline = time.monotonic() + _DEADLINE_S
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self, deadline: float) -> dict[str, Any]:
        """Return the next message; note an event on its way."""
        while b"\0" not in self._rest:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._back], [], [], left)
            more = os.read(self._back.fileno(), 1 << 16) if ready else b""
            if not more:
                raise BrowserError("the browser does not answer" if not ready else "it ended")
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, facts: dict[str, Any]) -> None:
        if event in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(f"{event}: {json.dumps(facts, ensure_ascii=False)}")
        elif event == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])
        elif event == "Page.loadEventFired":
            self._loaded = True

    def open(self, path: Path, width: int = 1200, height: int = 900, script: bool = True) -> None:
        """Load a file at a window size (CSS pixels), with or without JavaScript. Complaints and
        requests are those of this file alone."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.send("Emulation.setScriptExecutionDisabled", value=not script)
        self._loaded = False
        self.complaints.clear()
        self.requests.clear()
        self.send("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + _DEADLINE_S
        while not self._loaded:
            self._next(deadline)

    def ask(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page. Raise BrowserError when it
        throws."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key of the keyboard: Tab or Enter."""
        code, text = _KEYS[key]
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text else {}
            self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more
            )

    def type(self, words: str) -> None:
        """Type text into the focused field."""
        self.send("Input.insertText", text=words)


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """Start Chromium with its profile in `folder`; it is ended on the way out."""
    program = find()
    if program is None:
        raise BrowserError("Chromium is not installed (apt-get install chromium).")
    words = [program, *_FLAGS, f"--user-data-dir={folder / 'profile'}"]
    if os.geteuid() == 0:
        words.append("--no-sandbox")  # Chromium's sandbox refuses root
    # The shell moves our pipe to the descriptors that Chromium wants.
    moved = ["sh", "-c", 'exec "$@" 3<&0 4>&1 0</dev/null 1>&2', "sh", *words]
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            moved, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=folder
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        page = Page(process.stdin, process.stdout)
        yield page
        page._session = None
        page.send("Browser.close")
        process.wait(timeout=120)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_the_browser_notices_what_it_must(tmp_path: Path, chromium: Page) -> None:
    """The negative twin: errors, requests and an escape that was forgotten are all seen."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<title>t</title><script>console.error('oh'); fetch('http://neuron.example/x')</script>"
        "<script>nothing()</script><div style='width:900px'>wide</div>",
        encoding="utf-8",
    )
    chromium.open(bad, 390)
    seen = "\n".join(chromium.complaints)
    assert '"value": "oh"' in seen
    assert "nothing is not defined" in seen
    assert "http://neuron.example/x" in chromium.requests
    assert chromium.ask("document.documentElement.scrollWidth") > 390
    with pytest.raises(BrowserError, match="gone"):
        chromium.ask("gone.by")
