"""A real browser without a window, spoken to over a pipe in the DevTools protocol."""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WAIT_S_MAX = 30.0
# Fd 3 is what the browser reads, fd 4 what it writes; a message ends with a zero byte. Ours may have any numbers.
LAUNCHER = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for wanted, end in enumerate(ends, start=3):
    os.dup2(end, wanted)
os.execv(sys.argv[3], sys.argv[3:])
"""
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
QUIET = ["--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-sync"]


class Page:
    """One tab. Keeps what it asked the network for, and what it complained about."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._pending, self._number = b"", 0
        self._session: str | None = None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._number:
                assert "error" not in told, told
                return told["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._from], [], [], WAIT_S_MAX)
            assert ready, "the browser does not answer"
            told = os.read(self._from, 1 << 20)
            assert told, "the browser is gone"
            self._pending += told
        message, _, self._pending = self._pending.partition(b"\0")
        event: dict[str, Any] = json.loads(message)
        self._note(event.get("method"), event.get("params", {}))
        return event

    def _note(self, method: str | None, said: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(said["exceptionDetails"]))
        elif method == "Log.entryAdded" and said["entry"]["level"] == "error":
            self.complaints.append(said["entry"]["text"])

    # What tests do

    def run(self, script: str) -> Any:
        """The value of an expression; a promise is waited for."""
        told = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def wait_for(self, script: str) -> None:
        """Until the expression is true. The browser itself looks once per frame."""
        before = monotonic() + WAIT_S_MAX
        while monotonic() < before:
            if self.run(f"new Promise((done) => setTimeout(() => done(!!({script})), 16))"):
                return
        raise AssertionError(f"never true: {script}; {self.complaints}")

    def look(self, *, width: int, height: int = 900, dark: bool = False, scripts: bool = True) -> None:
        """How wide the window is, which colours its owner prefers, and whether scripts run."""
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)

    def picture(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A browser that knows nothing and leaves nothing but what is in the folder."""
    assert CHROMIUM is not None
    theirs, to_browser = os.pipe()
    from_browser, answers = os.pipe()
    command = [CHROMIUM, *OPTIONS, *QUIET, f"--user-data-dir={folder}"]
    launcher = [sys.executable, "-c", LAUNCHER, str(theirs), str(answers), *command]
    with (folder / "browser.log").open("wb") as log:
        process = subprocess.Popen(launcher, pass_fds=(theirs, answers), stdout=log, stderr=log, start_new_session=True)
    os.close(theirs)
    os.close(answers)
    try:
        yield Page(to_browser, from_browser)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # it is many processes
        process.wait()
        os.close(to_browser)
        os.close(from_browser)
