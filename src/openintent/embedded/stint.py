"""A thread that serves the file, or stands by while another process does.

Of all stints on the machine one serves the file, if any can, within tens of milliseconds after the last one ended.
No polling is needed for that: a stint keeps a connection to the grantor, which ends when the grantor does.
"""

import select
import socket
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from openintent.chance import SPREAD
from openintent.clock import boot_s
from openintent.embedded.sockets import connect
from openintent.engines.lockfile import look
from openintent.errors import EngineInUse

if TYPE_CHECKING:
    from openintent.server.app import Server

# Between two tries to find the grantor or to become it. The last one may still be writing its farewell, which takes
# some 200 ms, or the next one may be opening the file, which takes some 20.
PAUSE_S_MIN: Final = 0.005
PAUSE_S_MAX: Final = 0.1
# A grantor that we lost sooner than this did not end, but sent us away: to come back at once would be no use.
STEADY_S: Final = 1.0
# To load a server takes some 300 ms, for which no takeover should wait; but a short command should not pay for it.
PREPARE_AFTER_S: Final = 0.3
# A clean stop takes some 300 ms. No program is kept longer than this: without the farewell it is a crash, no more.
STOP_S_MAX: Final = 3.0


class Stint:
    """From `start` to `stop`, or until it fails."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._woken, self._waker = socket.socketpair()
        self._server: Server | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="openintent-member", daemon=True)
        self.where: str | None = None  # whoever serves the file, as far as is known
        self._silence = ""  # why whoever has the file could not be reached
        self.trouble = "nobody has looked for it yet"
        self.failure: Exception | None = None  # it has ended by this

    def start(self) -> None:
        try:
            self._thread.start()
        except BaseException:  # no thread is to be had, or an interrupt came: should it run all the same, it ends
            self._stopping = True
            self._waker.close()
            self._woken.close()
            raise

    def stop(self) -> None:
        """If this is the grantor: say farewell, and let another one be it."""
        self._stopping = True
        self._waker.close()
        if self._server is not None:
            self._server.should_exit = True
        self._thread.join(STOP_S_MAX)

    # What follows runs in the thread.

    def _run(self) -> None:
        try:
            with self._woken, self._waker:
                self._serve_or_stand_by()
        except Exception as failure:  # noqa: BLE001  # whatever it is, it is for whoever asks next
            self.failure = failure
        finally:
            self.where = None

    def _serve_or_stand_by(self) -> None:
        pause_s = PAUSE_S_MIN
        while not self._stopping:
            since = boot_s()
            if not self._stand_by():
                self._reign()
            steady = boot_s() - since > STEADY_S
            pause_s = PAUSE_S_MIN if steady else min(pause_s * 2, PAUSE_S_MAX)
            # Not all at once: those who are refused the lock by each other would only have to try again.
            self._wait(SPREAD.uniform(0, pause_s))

    def _stand_by(self) -> bool:
        """Stay with whoever serves the file until that ends. False if nobody does."""
        address = self._announced()
        try:
            connection = None if address is None else connect(address)
        except OSError as failure:
            connection, self._silence = None, f" ({failure.strerror or failure})"
        if connection is None:
            self.where = None
            return False
        with closing(connection):
            self.where = address
            # What was announced may have been the last word of one that is gone, if the next had not spoken yet.
            if not self._wait(PREPARE_AFTER_S, connection) and self._announced() == address:
                _load_server()
                self._wait(None, connection)
        return True

    def _announced(self) -> str | None:
        """Where the process that has the lock listens. What a process wrote that is gone does not count."""
        seen = look(self._database)
        if seen is None or not seen.in_use:
            return None
        # The new holder of the lock has not written yet what it has to say; this is from one that ended cleanly.
        return seen.entry.address or None if seen.entry.clean is None else None

    def _reign(self) -> None:
        """Serve the file until told to stop, unless another process has its lock."""
        from openintent.embedded import serving  # noqa: PLC0415  # it loads a server

        try:
            serving.serve(self._database, self._ready)
        except EngineInUse as refused:
            self.trouble = f"{refused}{self._silence}"
        finally:
            self._server = self.where = None

    def _ready(self, server: "Server", address: str) -> None:
        self._server, self.where = server, address
        if self._stopping:
            server.should_exit = True

    def _wait(self, seconds: float | None, connection: socket.socket | None = None) -> bool:
        """Until the connection says something, which can only be its end. False if that time has passed before."""
        watched = select.poll()  # unlike `select` it takes any number of open files
        for each in (self._woken, connection):
            if each is not None:
                watched.register(each, select.POLLIN)
        return bool(watched.poll(None if seconds is None else seconds * 1_000))


def _load_server() -> None:
    from openintent.embedded import serving  # noqa: F401, PLC0415  # so that it is there when it is needed
