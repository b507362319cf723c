"""The grantor's part: our own server, on a socket file. Of this package, the one module that loads a server."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from openintent.embedded.sockets import listening
from openintent.engines import open_engine
from openintent.server.app import Server, runner
from openintent.server.settings import Settings

log = logging.getLogger("openintent.embedded")

# A program that ends must not be kept: who has not taken its answer by now asks the next grantor.
STOP_S: Final = 0.3

Ready = Callable[[Server, str], None]


def serve(database: Path, ready: Ready) -> None:
    """Serve the file until the server that `ready` was given is told to exit. `EngineInUse` if another process does.

    Nothing is touched that is the program's own: no signal handler, no setting of the interpreter, no logging.
    """
    with runner() as loop:
        loop.run(_serve(database, ready))


async def _serve(database: Path, ready: Ready) -> None:
    engine = open_engine(f"sqlite:///{database}")
    try:
        if engine.notice is not None:
            log.warning("engine warned notice=%s", engine.notice)
        with listening(database) as listener:
            server = Server(Settings(stop_seconds=STOP_S), engine, lambda url: ready(server, url))
            await server.serve([listener])
    finally:
        # Last of all: from here on another process may be the grantor.
        await engine.close()
