"""Redis with the lock of redis-py, in two settings: as it comes, and with every write synced before its answer."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from uuid import uuid4

from peer import AnswerLost, Grant, Locks, Peer, Program
from peerinstall import redis_py

SYNCED = ("--appendonly", "yes", "--appendfsync", "always")


class RedisLocks(Locks):
    """One client, as the documents of redis-py make it, with its own retries; it opens connections as it needs them."""

    def __init__(self, port: int) -> None:
        library = redis_py()
        self._errors = library.exceptions
        self._client = library.asyncio.Redis(host="127.0.0.1", port=port)

    async def acquire(self, resource: str, *, holder: str, ttl_s: float, attempt: str | None = None) -> Grant | None:
        lock = self._client.lock(resource, timeout=ttl_s)
        sent_at = monotonic()
        granted = False
        with self._refusals():
            granted = await lock.acquire(blocking=False)
        return Grant(resource, holder, sent_at, lock) if granted else None

    async def renew(self, grant: Grant, *, ttl_s: float) -> bool:
        with self._refusals():
            await grant.handle.extend(ttl_s, replace_ttl=True)
            return True
        return False

    async def release(self, grant: Grant) -> bool:
        with self._refusals():
            await grant.handle.release()
            return True
        return False

    def as_stranger(self, grant: Grant, *, holder: str) -> Grant:
        """A lock object of its own on the same name. Its random value is all that tells it from the holder's."""
        lock = self._client.lock(grant.resource, timeout=grant.handle.timeout)
        lock.local.token = uuid4().hex.encode()
        return Grant(grant.resource, holder, grant.sent_at, lock)

    async def wall_s(self) -> float:
        seconds, _ = await self._client.time()
        return float(seconds)

    async def aclose(self) -> None:
        await self._client.aclose()

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """A refused release, renewal or argument passes by; a broken connection is an answer that was lost."""
        try:
            yield
        except (self._errors.ConnectionError, self._errors.TimeoutError) as broken:
            raise AnswerLost from broken
        except (self._errors.LockError, self._errors.ResponseError):
            pass


class RedisPeer(Peer):
    name = "Redis"

    def __init__(self, folder: Path, *, program: str, options: tuple[str, ...] = ()) -> None:
        super().__init__(folder)
        self._options = options
        self._path = program
        self._program = Program(folder / f"redis-{self.port}.log", ready="Ready to accept connections")
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        [server] = re.findall(r"v=([\d.]+)", said)
        self.version = f"{server}, redis-py {redis_py().__version__}"
        self.settings = " ".join(options).replace("--", "") or "defaults (no configuration file)"

    async def start(self) -> bool:
        bound = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)]
        return await self._program.start([*self.wrapper, self._path, *bound, *self._options])

    def kill(self) -> None:
        self._program.kill()

    def locks(self, port: int | None = None) -> RedisLocks:
        return RedisLocks(port or self.port)

    def second(self) -> None:
        """Redis has replicas, not a second server on the same files."""

    def spelled(self) -> list[str]:
        return ["redis", str(self.port)]
