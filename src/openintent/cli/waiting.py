"""Tells who waits for a lease what it is waiting for: a line that moves on a terminal, one line elsewhere."""

import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from openintent.cli.api import Api
from openintent.cli.report import printable, say
from openintent.clock import boot_s
from openintent.core.scopes import overlap
from openintent.errors import OpenIntentError

# A wait that is shorter than this is none to speak of.
SILENT_S: Final = 0.3
LOOK_S: Final = 1.0


class Waiting:
    """For the time of a `with` block. It only looks; whatever fails about that concerns nobody."""

    def __init__(self, api: Api, *, space: str, scope: str, agent: str, wait_s: float) -> None:
        self._api = api
        self._space = space
        self._scope = scope
        self._agent = agent
        self._wait_s = wait_s
        self._since = boot_s()
        self._over = threading.Event()
        self._showing = threading.Lock()
        self._status: Any = None

    def __enter__(self) -> Self:
        threading.Thread(target=self._follow, name="openintent-waiting", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The thread is not waited for: it may be in the middle of a question that is no longer of interest.
        self._over.set()
        with self._showing:
            if self._status is not None:
                self._status.stop()

    def _follow(self) -> None:
        show = self._move_line if sys.stderr.isatty() else say
        pause_s = SILENT_S
        while not self._over.wait(pause_s):
            self._show(show, self._told())
            if show is say:
                return
            pause_s = LOOK_S

    def _show(self, show: Callable[[str], None], text: str) -> None:
        with self._showing:
            if not self._over.is_set():
                show(text)

    def _move_line(self, text: str) -> None:
        from rich.console import Console  # noqa: PLC0415  # only who waits pays for it
        from rich.text import Text  # noqa: PLC0415

        line = Text(printable(text))
        if self._status is None:
            self._status = Console(stderr=True, highlight=False).status(line)
            self._status.start()
        self._status.update(line)

    # What is told

    def _told(self) -> str:
        try:
            what = f"{self._holder()}, {self._place()}"
        except OpenIntentError:
            what = "the server does not answer"
        return f"waiting for {self._scope}: {what} ({boot_s() - self._since:.0f} of {self._wait_s:g} s)"

    def _holder(self) -> str:
        leases = [lease for lease in self._api.leases(self._space)["leases"] if overlap(lease["scope"], self._scope)]
        if not leases:
            return "nobody holds it"
        # All of them must go; the last to go is the one to name.
        last = max(leases, key=lambda lease: float(lease["remaining_seconds"]))
        part = "" if last["scope"] == self._scope else f" (as {last['scope']})"
        others = f" and {len(leases) - 1} more" if len(leases) > 1 else ""
        return f"held by {last['agent_id']}{part}{others}"

    def _place(self) -> str:
        for waiter in self._api.queue(self._space, scope=self._scope):
            if waiter["agent_id"] == self._agent:
                ahead = waiter["place"] - 1
                return f"{ahead} before us" if ahead else "we are next"
        return "joining the queue"
