"""What a workload is, and what it is given: sizes, servers, turns."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import load
from peers import Peer, Server, running
from results import Figures, Row

T = TypeVar("T")

SETTLE_S_MAX = 20.0
SETTLE_LOOK_S = 0.25
IDLE_SHARE = 0.1  # of one processor; a tick of the kernel's accounting is a twenty-fifth of a look


@dataclass(frozen=True)
class Column:
    figure: str
    heading: str
    worst: bool = False  # shown as the worst round, not the median


RATE = (Column("per_s", "per second"), Column("p50_ms", "p50 ms"), Column("p99_ms", "p99 ms"))
COST = (
    Column("errors", "errors", worst=True),
    Column("server_cpu", "server processors"),
    Column("client_cpu", "load processors"),
)


@dataclass(frozen=True)
class Workload:
    """`run` gives the rows; the rest is for the report."""

    name: str
    title: str
    about: str  # what is done, and how to read it
    run: Callable[["Bench"], list[Row]]
    columns: tuple[Column, ...] = (*RATE, *COST)
    compared: str = "per_s"  # the figure by which ours is set against others; "" for none
    plotted: str = ""  # the figure that is drawn over the sizes; "" for no plot
    log_y: bool = False
    bars: tuple[str, ...] = ()  # figures that are drawn as bars, one for each row
    unit: str = ""  # theirs
    window: str = ""  # how long and how often, where that is the workload's own affair


@dataclass
class Bench:
    """One run of the suite."""

    peers: dict[str, Peer]
    data: Path
    rounds: int
    seconds: float
    quick: bool = False
    long: bool = False
    say: Callable[[str], None] = lambda _text: None
    notes: list[str] = field(default_factory=list)

    def size(self, full: T, quick: T) -> T:
        return quick if self.quick else full

    def has(self, *keys: str) -> list[str]:
        return [key for key in keys if key in self.peers]

    def start(self, stack: ExitStack, key: str, **extra: str) -> Server:
        self.say(f"starting {self.peers[key].title}")
        return stack.enter_context(running(self.peers[key], self.data, **extra))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def connect(self, stack: ExitStack, server: Server, workload: str, **options: float | None) -> load.Loader | None:
        """A loader that is ready, or None with a note if it is another's server that did not let it get ready."""
        self.say(f"{server.peer.title}: getting ready")
        defaults: dict[str, float | None] = {"seconds": self.seconds, "warmup": min(1.0, self.seconds / 4)}
        options = defaults | options
        try:
            return stack.enter_context(load.loader(server, workload, **options))
        except load.LoadFailed as failure:
            if server.peer.key == "ours":
                raise
            self.note(
                f"{server.peer.title} left out of `{workload}` with {options.get('conns')} connections: {failure}"
            )
            return None

    def _take(self, each: "Contender") -> None:
        try:
            each.row.add(each.taken())
        except load.LoadFailed as failure:
            if each.row.peer == "ours":
                raise
            self.note(f"{each.server.peer.title}, {each.row.size}: {failure}")

    def in_turns(self, contenders: Sequence["Contender"]) -> list[Row]:
        """A B A B, so that what slows the machine for a while slows all of them. Only others may fail."""
        for number in range(self.rounds):
            for each in contenders:
                self.say(f"{each.row.peer}, {each.row.size}: round {number + 1} of {self.rounds}")
                self._take(each)
                settle([server for other in contenders for server in (other.server, *other.beside)])
        return [each.row for each in contenders if each.row.figures]


def settle(servers: Sequence[Server]) -> None:
    """Wait until no server works on: what one has put off must not slow the next."""
    began_s = time.monotonic()
    different = list({id(server): server for server in servers}.values())
    used_s = [server.processor_s() for server in different]
    while time.monotonic() < began_s + SETTLE_S_MAX:
        time.sleep(SETTLE_LOOK_S)
        now_s = [server.processor_s() for server in different]
        if all(now - before < IDLE_SHARE * SETTLE_LOOK_S for now, before in zip(now_s, used_s, strict=True)):
            return
        used_s = now_s


@dataclass
class Contender:
    """One server at one size, and how to measure it once."""

    row: Row
    server: Server
    measure: Callable[[], Figures]
    beside: tuple[Server, ...] = ()  # servers that it needs for this work

    def taken(self) -> Figures:
        before_s, beside_s, began_s = self.server.processor_s(), self._beside_s(), time.monotonic()
        found = self.measure()
        took_s = time.monotonic() - began_s
        found |= {"engine_cpu": (self._beside_s() - beside_s) / took_s} if self.beside else {}
        return found | {"server_cpu": (self.server.processor_s() - before_s) / took_s}

    def _beside_s(self) -> float:
        return sum(server.processor_s() for server in self.beside)


def loaded(
    bench: Bench, stack: ExitStack, server: Server, workload: str, size: str, at: float, **options: float | None
) -> list[Contender]:
    """A contender that leaseload measures; none if it did not get ready."""
    found = bench.connect(stack, server, workload, **options)
    return [Contender(Row(server.peer.key, size, at), server, found.window)] if found else []
