"""A server, a store, and workers that reach the server each through a link of its own; all of them processes."""

import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from chaos_log import Line, now_ns
from chaos_worker import SCOPES, SPACE
from faultproxy import FaultProxy
from serverprocess import ServerProcess

from openintent import OpenIntentClient
from openintent.client.values import Event
from openintent.clock import boot_s

HERE = Path(__file__).parent
WORKERS = 6
# Generous: the longest that a worker can be busy after the last fault is a wait, its slack and a release.
REST_S_MAX = 20.0
PROGRESS_S_MAX = 15.0
START_S_MAX = 30.0


class Worker:
    """A place in the arena: its link, and the process that has it now. A killed one is followed by another."""

    program = "chaos_worker.py"
    first_word = b"resting\n"  # that it says
    more_words: tuple[str, ...] = ()  # that it is started with

    def __init__(self, folder: Path, number: int, server_port: int) -> None:
        self.link = FaultProxy(server_port)
        self.kind = "plain" if number % 2 else "awaited"
        self.deaths: dict[str, int] = {}  # by name, when that process was dead
        self._number = number
        self._folder = folder
        self._lives = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def name(self) -> str:
        return f"c{self._number}.{self._lives}"

    async def start(self, store_port: int) -> None:
        self._words = (await self.reach(), str(store_port))
        await self._launch()

    async def reach(self) -> str:
        """Where it finds its server."""
        return await self.link.start()

    async def _launch(self) -> None:
        self._lives += 1
        url, store_port = self._words
        words = [url, store_port, self.name, str(self._folder / f"{self.name}.jsonl"), self.kind, *self.more_words]
        with (self._folder / f"{self.name}.err").open("w") as complaints:
            self._process = await asyncio.create_subprocess_exec(
                *[sys.executable, str(HERE / self.program), *words],
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=complaints,
            )
        await self.rested()

    async def rested(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        word = await asyncio.wait_for(self._process.stdout.readline(), max(REST_S_MAX, START_S_MAX))
        assert word == self.first_word, f"{self.name}: {word!r} {self.complaints()}"

    def tell(self, word: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert not self._process.stdin.is_closing(), f"{self.name} has ended: {self.complaints()}"
        self._process.stdin.write(f"{word}\n".encode())

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        """kill -9; and somebody else comes in its place, and sets to work."""
        await self._end()
        await self._launch()
        self.tell("go")

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()  # reads to the end and closes the pipes
            self.deaths[self.name] = now_ns()

    def complaints(self) -> str:
        return (self._folder / f"{self.name}.err").read_text()

    async def stop(self) -> None:
        await self._end()
        await self.link.stop()


class Arena:
    def __init__(self, folder: Path, workers: int = WORKERS, kind: type[Worker] = Worker) -> None:
        self.folder = folder
        self.server = ServerProcess(folder / "leases.db")
        self.workers = [kind(folder, number, self.server.port) for number in range(workers)]
        self._client = OpenIntentClient(self.urls(), agent_id="harness")
        self._store: asyncio.subprocess.Process | None = None
        self._read: dict[Path, int] = {}  # how far
        self._seq = 0

    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{self.server.port}"]

    async def start(self) -> None:
        await self.start_server()
        command = [sys.executable, str(HERE / "chaos_store.py"), str(self.folder / "store.jsonl")]
        self._store = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert self._store.stdout is not None
        port = int(await asyncio.wait_for(self._store.stdout.readline(), START_S_MAX))
        async with asyncio.TaskGroup() as starting:
            for worker in self.workers:
                starting.create_task(worker.start(port))

    async def stop(self) -> None:
        await asyncio.gather(*(worker.stop() for worker in self.workers))
        if self._store is not None:
            self._store.kill()
            await self._store.communicate()
        self._client.close()
        await self.stop_server()

    async def start_server(self) -> None:
        await asyncio.to_thread(self.server.start)

    async def stop_server(self) -> None:
        self.server.kill()

    # A round

    def go(self) -> None:
        for worker in self.workers:
            worker.tell("go")

    async def rest(self) -> None:
        """The quiet phase: nothing goes wrong any more, and everybody ends what they do."""
        for worker in self.workers:
            worker.tell("rest")
        await asyncio.gather(*(worker.rested() for worker in self.workers))

    async def progress(self) -> float:
        """Every scope is granted and given back again; how many seconds the slowest took."""
        return max(await asyncio.gather(*(asyncio.to_thread(self._take_turn, scope) for scope in SCOPES)))

    def _take_turn(self, scope: str) -> float:
        begun = boot_s()
        with self._client.lease(space=SPACE, scope=scope, ttl=5, wait_seconds=PROGRESS_S_MAX):
            return boot_s() - begun

    # What was written down

    def new_lines(self) -> Iterator[Line]:
        for path in sorted(self.folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, _, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole) + bool(whole)
            yield from map(json.loads, whole.splitlines())

    def new_events(self) -> list[Event]:
        events = list(self._client.iter_events(space=SPACE, after=self._seq))
        self._seq = events[-1].seq if events else self._seq
        return events

    def deaths(self) -> dict[str, int]:
        return {name: at for worker in self.workers for name, at in worker.deaths.items()}
