"""What every lock service under comparison must show: a server that can be killed, and acquire, renew, release.

The checks in peerchecks.py know nothing else of a peer. Each one is used the way its own documents say. What a peer
does not offer is `None` or False here, and "not offered" in the figures: never a failure.
"""

import asyncio
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serverprocess import free_port

HOLDERS = tuple(f"holder-{n}" for n in range(40))
NOT_OFFERED = "not offered"
START_S_MAX = 30.0
LOOK_EVERY_S = 0.01


def python_path() -> dict[str, str]:
    """What a program of these tests needs to find the modules that it imports."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


class AnswerLost(Exception):
    """It left, no answer came: it may have happened."""


@dataclass(frozen=True)
class Grant:
    """One grant as its holder knows it."""

    resource: str
    holder: str
    sent_at: float  # when the request left, on the holder's own clock: what it may believe counts from here
    handle: Any  # by which the peer knows it
    token: int | None = None  # by which a store can refuse stale writes


class Locks(ABC):
    """A client of a peer, at one address, for any number of holders."""

    @abstractmethod
    async def acquire(self, resource: str, *, holder: str, ttl_s: float, attempt: str | None = None) -> Grant | None:
        """Try once. None is a no; `AnswerLost` is neither."""

    @abstractmethod
    async def renew(self, grant: Grant, *, ttl_s: float) -> bool: ...

    @abstractmethod
    async def release(self, grant: Grant) -> bool: ...

    @abstractmethod
    def as_stranger(self, grant: Grant, *, holder: str) -> Grant:
        """What another holder has in hand if it wants to renew or release this grant."""

    @abstractmethod
    async def wall_s(self) -> float:
        """The server's wall clock, to see that a step has reached it."""

    @abstractmethod
    async def aclose(self) -> None: ...


class Peer(ABC):
    """A lock service in its own process and folder."""

    name: str
    version: str
    settings: str
    ours = False
    fences = False  # each grant has a larger number
    repeats = False  # a request can be repeated under an id, and is then the same request

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.wrapper: list[str] = []  # a command that runs the server's

    @abstractmethod
    async def start(self) -> bool:
        """Start it, again on the same data after a kill; False if it refused to."""

    @abstractmethod
    def kill(self) -> None:
        """kill -9: nothing is finished, nothing is said."""

    @abstractmethod
    def locks(self, port: int | None = None) -> Locks:
        """A client; of another port if the way leads through a proxy."""

    @abstractmethod
    def second(self) -> "Peer | None":
        """Another server on the same data, not started yet; None where that is not offered."""

    @abstractmethod
    def spelled(self) -> list[str]:
        """What a program of its own needs to make the same client."""

    def described(self) -> dict[str, str]:
        return {"peer": self.name, "version": self.version, "settings": self.settings}


class Program:
    """One process of a server, ready when it says so in its log."""

    def __init__(self, log: Path, *, ready: str, environment: dict[str, str] | None = None) -> None:
        self._log = log
        self._ready = ready
        self._environment = environment or {}
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self, command: list[str]) -> bool:
        """True when it is ready, False if it ended before."""
        process = self._launched(command)
        async with asyncio.timeout(START_S_MAX):
            while self._ready not in self._log.read_text(errors="replace"):
                if process.poll() is not None:
                    self._process = None
                    return False
                await asyncio.sleep(LOOK_EVERY_S)
        return True

    def _launched(self, command: list[str]) -> subprocess.Popen[bytes]:
        assert self._process is None
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", **self._environment}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._log.parent, env=environment)
        return self._process

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait(START_S_MAX)
            self._process = None
