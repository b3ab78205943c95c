"""Chromium without a window, driven by the DevTools protocol (https://chromedevtools.github.io/devtools-protocol).

The protocol gives a page a real width, a colour scheme and paper; the command line does so only once for each process.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import websocket

SECONDS = 120.0
"""How long anything may take."""

ALONE = (
    "--host-resolver-rules=MAP * ~NOTFOUND",
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
"""Without these options, Chromium asks servers of its maker for updates as it starts."""

LISTENS = re.compile(r"DevTools listening on (ws://\S+)")
PHONE_WIDTH = 600


class Tab:
    """The one tab of a browser."""

    def __init__(self, socket: websocket.WebSocket) -> None:
        self._socket = socket
        self._number = 0
        self._events: list[str] = []
        self._session: dict[str, str] = {}
        (target,) = [each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        self.call("Page.enable")

    def call(self, method: str, **params: Any) -> Any:
        """Call a method of the protocol; returns its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params, **self._session}))
        while (said := self._read()).get("id") != self._number:
            pass
        assert "error" not in said, (method, said["error"])
        return said["result"]

    def _read(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self._socket.recv())
        self._events.append(said.get("method", ""))
        return said

    def open(self, page: Path, size: tuple[int, int], *, dark: bool = False) -> None:
        """Open a file on a screen of this size; a narrow one is a phone's, which heeds the page's viewport element."""
        self.resize(size, mobile=size[0] < PHONE_WIDTH)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while "Page.loadEventFired" not in self._events:
            self._read()

    def resize(self, size: tuple[int, int], *, mobile: bool) -> None:
        """Make the screen as large as this, in CSS pixels."""
        screen = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", **screen)

    def run(self, script: str) -> Any:
        """The value of a script's last expression in the page; that of a promise once it is kept."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def printed(self) -> bytes:
        """The page on paper, as PDF."""
        self.call("Emulation.clearDeviceMetricsOverride")
        return base64.b64decode(self.call("Page.printToPDF")["data"])


@contextmanager
def chromium(profile: Path) -> Iterator[Tab]:
    """A browser with its profile in a folder, until the end of the block."""
    command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *ALONE]
    command += [f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = next((found for line in process.stderr if (found := LISTENS.search(line))), None)
        assert found, f"{command[0]} ended with {process.wait()}"
        Thread(target=process.stderr.read, daemon=True).start()  # or it could not go on once the pipe is full
        socket = websocket.create_connection(found[1], timeout=SECONDS, suppress_origin=True)
        try:
            yield Tab(socket)
        finally:
            socket.close()
            process.terminate()
