"""A server in a process of its own, to be killed, stopped, frozen and started again on the same port and file."""

import os
import random
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic

# Below the range from which the system gives ports to clients: while the server is down, a client that calls its
# port could otherwise be given that very port and connect to itself.
PORTS = range(20_000, 32_000)
READY = "openintent is ready at "
STOP_S_MAX = 20.0


def free_port() -> int:
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class ServerProcess:
    """Ready when `start` returns. Its log goes to a file, beside the database unless said otherwise."""

    takeover_s = 0.0  # how long it is not ready because the one before it was killed

    def __init__(self, database: Path, *, log: Path | None = None, engine: str | None = None) -> None:
        self.database = database
        self.engine = engine or f"sqlite:///{database}"
        self.settings: dict[str, str] = {}  # by the names that they have in the environment
        self.port = free_port()
        self.log = log or database.with_name(database.name + ".log")
        self.wrapper: list[str] = []  # a command that runs the server's
        self.started_at = 0.0  # when the newest process was started; it became ready some time after
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def engine_name(self) -> str:
        return self.engine.partition(":")[0]

    @property
    def command(self) -> list[str]:
        options = ["--port", str(self.port), "--engine", self.engine]
        return [*self.wrapper, sys.executable, "-m", "openintent.cli", "serve", *options]

    def launch(self) -> None:
        """Start it without waiting until it is ready."""
        assert self._process is None
        self.started_at = monotonic()
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                self.command, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, **self.settings}
            )

    def start(self) -> float:
        """Start it; returns how many seconds it took until it was ready."""
        self.launch()
        line = self._first_line()
        ready_s = monotonic() - self.started_at
        assert line.startswith(READY), f"{line}{self.log.read_text()}"
        return ready_s

    def becomes_ready(self) -> bool:
        """Wait for a process that was launched; False if it dies before it is ready."""
        line = self._first_line()
        assert line.startswith(READY) or not line, f"{line}{self.log.read_text()}"
        return bool(line)

    def kill(self) -> None:
        """kill -9: nothing is finished, nothing is said."""
        if self._process is not None:
            self._process.kill()
            self._end()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self._end()

    def wait(self) -> int:
        """Until it has ended by itself; returns the exit code."""
        return self._end()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _first_line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def _end(self) -> int:
        assert self._process is not None
        with self._process as process:
            code = process.wait(STOP_S_MAX)
        self._process = None
        return code
