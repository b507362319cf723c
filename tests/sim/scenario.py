"""What a seed stands for: how bad the network and the disk are, what goes wrong when, and what each client wants.

A scenario is a list of commands and nothing else, so that a failing one can be made smaller by leaving some out. What
is left keeps its meaning: each command brings its own chances with it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple, TypeVar

T = TypeVar("T")

STEPS = 500
STEPS_OF_SEVERAL = 1_000  # with several servers: half of them are those of onlookers
SECONDS_MAX = 45.0
CLIENTS = ("c0", "c1", "c2", "c3")
JOBS_MAX = 24  # of one client; more than it mostly gets to
KINDS = ("hold", "hold", "hold", "hold", "count", "meddle", "hasty")
SCOPES = ("a", "a/b", "a/**", "c", "d", "*")
# How long each fault lasts at the most; for those that end a process, until the next one starts.
ON_CLIENTS = {"kill": 1.0, "freeze": 3.0, "cut": 2.0, "slow, then cut": 0.8}
ON_SERVER = {"crash": 0.3, "crash at a commit": 0.3, "stop": 0.2, "freeze server": 2.0}
ON_MEMBER = {**ON_SERVER, "freeze server": 4.0, "cut from the engine": 2.5}


@dataclass(frozen=True)
class Weather:
    """How bad the network is."""

    loss: float = 0.0
    repeats: float = 0.0
    tail: float = 0.0  # share of messages that take up to three seconds


class Fault(NamedTuple):
    """Something that is done to a process or a link at an instant of true time."""

    at: float
    kind: str  # a key of ON_CLIENTS or ON_MEMBER, or a wall jump
    client: str = ""
    length_s: float = 0.0
    place: int | None = None  # of the server that it is done to, if not to the one that leads

    def __str__(self) -> str:
        whom = self.client if self.place is None else f"s{self.place}"
        words = f"{self.at:7.3f}  {self.kind} {whom}".rstrip()
        return f"{words} for {self.length_s:.3f} s" if self.length_s else words


class Chances:
    """Numbers from 0 to 1, by chance: each job has its own, and a `Random` takes long to make."""

    def __init__(self, luck: int) -> None:
        self._state = luck

    def random(self) -> float:
        self._state = (self._state * 0x5851F42D4C957F2D + 0x14057B7EF767814F) % 2**64
        return (self._state >> 11) / 2**53


class Job(NamedTuple):
    """What a client wants next."""

    client: str
    number: int
    kind: str  # hold, count, meddle, hasty
    scope: str
    ttl_s: float
    wait_s: float
    cooldown_s: float | None
    priority: int
    work_s: float
    pause_s: float  # before the next one
    luck: int

    @property
    def chances(self) -> "Chances":
        return Chances(self.luck)

    def __str__(self) -> str:
        wait = f", waiting {self.wait_s:g} s" if self.wait_s else ""
        return f"{self.client} job {self.number}: {self.kind} {self.scope} for {self.ttl_s:g} s{wait}"


@dataclass(frozen=True)
class Scenario:
    seed: int
    weather: Weather
    disk_fails: float  # chance per commit
    faults: tuple[Fault, ...]
    jobs: tuple[Job, ...]
    steps: int = STEPS
    servers: int = 1  # on a disk of its own; several share an engine
    engine_late: float = 0.0  # share of messages to and from that engine that take up to three seconds

    @classmethod
    def drawn(cls, seed: int, *, servers: int = 1) -> "Scenario":
        """Each kind of fault is absent in some seeds and frequent in others."""
        random = Random(f"scenario {seed}" if servers == 1 else f"scenario {seed} of {servers}")

        def often(*choices: float) -> float:
            return random.choice((0.0, *choices))

        weather = Weather(loss=often(0.01, 0.1), repeats=often(0.02, 0.1), tail=often(0.02, 0.1))
        disk_fails = often(0.01, 0.05)
        return cls(
            seed,
            weather,
            disk_fails,
            tuple(_faults(random, servers)),
            tuple(j for c in CLIENTS for j in _jobs(random, c)),
            STEPS if servers == 1 else STEPS_OF_SEVERAL,
            servers,
            often(0.005, 0.03),
        )

    @property
    def commands(self) -> list[Fault | Job]:
        return [*self.faults, *self.jobs]

    def without(self, left_out: set[Fault | Job]) -> "Scenario":
        return replace(
            self,
            faults=tuple(fault for fault in self.faults if fault not in left_out),
            jobs=tuple(job for job in self.jobs if job not in left_out),
        )


def _faults(random: Random, servers: int) -> Iterator[Fault]:
    def often(*choices: float) -> float:
        return random.choice((0.0, *choices))

    rates = {
        "crash": random.choice((0.01, 0.03, 0.06)),
        "crash at a commit": often(0.03, 0.08),
        "stop": often(0.06),
        "freeze server": often(0.05),
        "kill": often(0.06),
        "freeze": often(0.03, 0.1),
        "slow, then cut": often(0.03, 0.1),
        "cut": often(0.03, 0.1),
        "wall jump": often(0.1),
    }
    if servers > 1:
        rates["cut from the engine"] = often(0.03, 0.08)
    at = 0.3
    while at < SECONDS_MAX:
        for kind, rate in rates.items():
            if random.random() < rate:
                yield _fault(random, kind, at, servers)
        at += 0.1 + random.random() * 0.3


def _fault(random: Random, kind: str, at: float, servers: int) -> Fault:
    client, length = random.choice(CLIENTS), random.random()
    if kind == "wall jump":
        return Fault(at, kind, length_s=random.choice((-3600.0, -5.0, 5.0, 3600.0)))
    if kind in ON_CLIENTS:
        return Fault(at, kind, client, length * ON_CLIENTS[kind])
    # Mostly the one that leads: nobody hears of what becomes of the others.
    place = random.randrange(servers) if servers > 1 and random.random() < 0.3 else None
    longest_s = (ON_SERVER if servers == 1 else ON_MEMBER)[kind]
    return Fault(at, kind, length_s=length * longest_s, place=place)


def one_of(random: Random | Chances, choices: Sequence[T]) -> T:
    return choices[int(random.random() * len(choices))]  # the quick way: there are thousands of them


def _jobs(random: Random, client: str) -> Iterator[Job]:
    for number in range(JOBS_MAX):
        yield Job(
            client=client,
            number=number,
            kind=one_of(random, KINDS),
            scope=one_of(random, SCOPES),
            ttl_s=one_of(random, (0.5, 1.0, 2.0, 3.0)),
            wait_s=one_of(random, (0.0, 0.0, 0.5, 2.0, 5.0)),
            cooldown_s=one_of(random, (None, None, None, 0.7)),
            priority=one_of(random, (0, 0, 0, 5)),
            work_s=one_of(random, (0.01, 0.1, 0.5, 2.0)),
            pause_s=one_of(random, (0.001, 0.01, 0.05, 0.2)),
            luck=random.getrandbits(64),
        )
