"""The process that has a server's SQLite file: `python -m openintent.engines.apart_program SOCKET LOCK FILE`.

It does what it is asked, one thing after the other, and folds when nobody asks. It ends when it is told to, or when
the server is no more; what it had not begun by then does not happen. It says nothing but answers.
"""

import ctypes
import os
import select
import signal
import socket
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final

from openintent.engines.apart_words import (
    Announce,
    Answer,
    CatchUp,
    Close,
    CommitHeard,
    Heard,
    Inbox,
    Open,
    Reopen,
    Scan,
    decode_request,
    failed,
    frame,
    sayable,
)
from openintent.engines.base import Record
from openintent.engines.lockfile import LockFile
from openintent.engines.sqlite_database import IDLE_S, SqliteDatabase, decode_changes

PR_SET_PDEATHSIG: Final = 1  # <linux/prctl.h>


class Line:
    """The socket to the server."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        self._poll = select.poll()
        self._poll.register(ours, select.POLLIN)
        self._inbox = Inbox()
        self._requests: deque[bytes] = deque()

    def is_silent(self, seconds: float) -> bool:
        """For that long."""
        return not self._requests and not self._poll.poll(1_000 * seconds)

    def next(self) -> Heard | None:
        """None if the server is no more, whatever it had asked before."""
        while not self._requests:
            if not self._inbox.receive(self._socket):
                return None
            self._requests.extend(self._inbox.messages())
        request: Heard = decode_request(self._requests.popleft())
        return None if self._has_ended() else request

    def tell(self, answer: Answer) -> None:
        self._socket.sendall(frame(answer))

    def _has_ended(self) -> bool:
        return any(events & select.POLLHUP for _, events in self._poll.poll(0))


class Program:
    """From the first request to the last."""

    def __init__(self, line: Line, lent: int, path: Path) -> None:
        self._line = line
        self._lent = lent  # by the server, which has the lock, and keeps it if this process ends
        self._path = path

    def run(self) -> None:
        request = self._line.next()
        if not isinstance(request, Open):  # the server was gone sooner
            return
        try:
            lock = LockFile(self._path, lent=self._lent)
            database = SqliteDatabase(self._path, address=request.address, pid=request.pid, lock=lock)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is for whoever asked
            self._line.tell(Answer(None, error=failed(error)))
            return
        self._line.tell(_answer(database, request))
        while request is not None and not isinstance(request, Close):
            self._fold(database)
            request = self._line.next()
            if request is not None:
                self._line.tell(_answer(database, request))

    def _fold(self, database: SqliteDatabase) -> None:
        more = database.fold_some(idle=False)
        while more and self._line.is_silent(IDLE_S):
            more = database.fold_some(idle=True)


def _answer(database: SqliteDatabase, request: Heard) -> Answer:
    records: list[Record] = []
    error = None
    try:
        records = _do(database, request)
    except Exception as raised:  # noqa: BLE001  # whatever it is, it is for whoever asked
        error = failed(raised)
    return Answer(
        database.head,
        None if database.failure is None else sayable(database.failure),
        None if database.notice is None else sayable(database.notice),
        error,
        tuple((record.key, record.value) for record in records),
        database.token_ready,
    )


def _do(database: SqliteDatabase, request: Heard) -> list[Record]:
    match request:
        case CommitHeard(expect, head, changes):
            blob = bytes(changes)
            database.commit(expect, head, decode_changes(blob), blob)
        case Scan(first, last, limit, reverse):
            return database.scan(first, last, limit=limit, reverse=reverse)
        case Announce(address):
            database.announce(address)
        case CatchUp():
            database.catch_up()
        case Reopen(known):
            database.reopen(known)
        case Open(known=known) if known is not None:
            database.reopen(known)
        case Close():
            database.close()
    return []


def _die_with_the_server() -> None:
    """At once. Without this it ends by itself, when it has done what it is doing."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    line, lent, path = sys.argv[1:]
    # Whoever stops a server may tell all its processes. The server knows when this one is not needed any more.
    for told in (signal.SIGINT, signal.SIGTERM):
        signal.signal(told, signal.SIG_IGN)
    _die_with_the_server()
    with suppress(ConnectionError):  # nobody reads the answer
        Program(Line(socket.socket(fileno=int(line))), int(lent), Path(path)).run()
    # An open database is left as by a crash: who comes next waits for this process to end.
    os._exit(0)


if __name__ == "__main__":
    main()
