"""The processes of the demo, from outside: started, frozen, killed, and in any case ended."""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from typing import IO, Any, Final, Self

from openintent.cli.demo import child
from openintent.cli.report import Problem
from openintent.clock import boot_s

AGENTS: Final = ("ada", "bob", "cyd", "dan", "eve", "fay")
START_S_MAX: Final = 30.0
LOOK_S: Final = 0.2
END_S_MAX: Final = 5.0
LOG_CHARS_MAX: Final = 2_000


class Cast:
    """A server and six agents. Leaving the block ends them all."""

    def __init__(self) -> None:
        self.url = ""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed when all have ended
        self._reader, self._writer = os.pipe()

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, name="demo-cast", daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self._processes.values():
            process.kill()  # also if it is frozen; what is in memory need not be stored
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_S_MAX)
            if process.stdin is not None:
                process.stdin.close()
        os.close(self._writer)
        self._log.close()

    # Starting

    def start_server(self) -> str:
        self._start("server", "server")
        self.url = str(self._await_ready("server")["url"])
        return self.url

    def start_agents(self, intent_id: str, *, ttl_s: float) -> None:
        """They are loaded when this returns, and begin with `go`."""
        for name in AGENTS:
            self._start(name, "agent", self.url, name, intent_id, str(ttl_s))
        for _ in AGENTS:
            self._await_ready("an agent")

    def go(self) -> None:
        for name in AGENTS:
            stdin = self._processes[name].stdin
            assert stdin is not None
            stdin.write(child.GO)
            stdin.flush()

    def _start(self, name: str, *words: str) -> None:
        self._processes[name] = subprocess.Popen(  # noqa: S603  # our own program
            [sys.executable, "-m", child.__name__, *words],
            stdin=subprocess.PIPE,
            stdout=self._writer,
            stderr=self._log,
            # A group of its own: Ctrl-C is for the demo, which ends the others in order. And should the demo be
            # killed, the system wakes a frozen one of them, and tells it to go.
            process_group=0,
        )

    def _await_ready(self, who: str) -> dict[str, Any]:
        until = boot_s() + START_S_MAX
        while boot_s() < until and self._all_alive():
            with suppress(queue.Empty):
                return self._said.get(timeout=LOOK_S)
        raise Problem(f"{who} of the demo did not start", self._last_words())

    def _all_alive(self) -> bool:
        return all(process.poll() is None for process in self._processes.values())

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read()[-LOG_CHARS_MAX:].decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "openintent doctor may know why"

    # While it plays

    def heard(self) -> list[dict[str, Any]]:
        """What the agents have said since the last time."""
        found = []
        with suppress(queue.Empty):
            while True:
                found.append(self._said.get_nowait())
        return found

    def kill(self, name: str) -> None:
        """With SIGKILL: nothing is finished, nothing is said."""
        self._processes[name].kill()

    def freeze(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGSTOP)

    def wake(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGCONT)

    def _listen(self) -> None:
        with os.fdopen(self._reader, "rb") as lines:
            for line in lines:
                with suppress(ValueError):
                    self._said.put(json.loads(line))
