"""Where `hold` asks if nobody told it: a server on this machine or, if there is none, a file of the user's own.

Those who hold at the server and those who hold by the file do not exclude each other. So nobody changes over while
others are still with the old one: as long as the file is in use it is used, and a server that was there before gets
some time to come back. Who needs more than that names the place.
"""

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from openintent.cli.report import say
from openintent.clock import boot_s

SERVER: Final = ("localhost", 8000)
SERVER_URL: Final = "http://localhost:8000"
CONNECT_S_MAX: Final = 1.0
# A server that is restarted listens again within seconds.
RETURN_S_MAX: Final = 5.0
LOOK_S: Final = 0.1


def place_of_hold(*, quiet: bool) -> str | None:
    """A URL to use, or None for the usual one."""
    folder = _state_folder()
    if folder is None:
        return None
    file, mark = folder / "hold.db", folder / "server-was-here"
    in_use = _in_use(file)
    if not in_use and _server_answers(RETURN_S_MAX if mark.exists() else 0.0):
        mark.touch()
        return None
    url = f"sqlite:///{file}"
    if not quiet:
        say(f"{'others here do without a server' if in_use else f'no server at {SERVER_URL}'}: using {url}")
    return url


def _state_folder() -> Path | None:
    """Where programs keep what should survive a restart. None if this user has no such place."""
    with suppress(OSError, RuntimeError):
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        folder = base / "openintent"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder
    return None


def _in_use(file: Path) -> bool:
    from openintent.engines.lockfile import look  # noqa: PLC0415  # `--help` must not wait for it

    seen = look(file)
    return seen is not None and seen.in_use


def _server_answers(patience_s: float) -> bool:
    until = boot_s() + patience_s
    while True:
        with suppress(OSError):
            socket.create_connection(SERVER, CONNECT_S_MAX).close()
            return True
        if boot_s() >= until:
            return False
        time.sleep(LOOK_S)
