"""Whether what a power cut left is what was promised: the real engine opens it, and the real grantor goes on."""

import shutil
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from engine_words import everything
from powerdisk import EMPTY, Image
from powerlife import DATABASE, LIMITS, Chain, Life, Records, Returned, Told
from stage import BootClock, soon

from openintent import records
from openintent.core.commands import Acquire
from openintent.engines.base import Head
from openintent.engines.sqlite import SqliteEngine
from openintent.grantor.grantor import Grantor
from openintent.model import Ask

STEPS = 150  # of the script, in one life


class Promises:
    """What of a life had been promised by each instant."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._returned = life.journal.notes(Returned)
        self._told = life.journal.notes(Told)
        self._tokens = list(_highest((told.token for _, told in self._told), life.token_told))
        self._seqs = list(_highest((told.seq for _, told in self._told), 0))

    def at(self, instant: int) -> "Promise":
        commits = bisect_right(self._returned, instant, key=lambda noted: noted[0])
        told = bisect_right(self._told, instant, key=lambda noted: noted[0])
        return Promise(
            commits=self._returned[commits - 1][1].commits if commits else 0,
            token=self._tokens[told],
            seq=self._seqs[told],
        )


@dataclass(frozen=True)
class Promise:
    commits: int  # so many have returned
    token: int  # the largest that anybody was told
    seq: int  # the newest event that a reply hung on


def _highest(numbers: Iterator[int], first: int) -> Iterator[int]:
    yield first
    for number in numbers:
        first = max(first, number)
        yield first


@dataclass
class Verdict:
    """What is wrong with an image, if anything, and what was found in it."""

    wrong: list[str] = field(default_factory=list)
    head: Head = field(default_factory=Head)
    records: Records = field(default_factory=dict)


async def judge(image: Image, folder: Path, chain: Chain, promise: Promise) -> Verdict:
    """Put the image into a folder of its own, open it, and compare."""
    verdict = Verdict()
    fill(folder, image)
    try:
        await _look(folder / DATABASE, verdict, chain, promise)
    except Exception as error:  # noqa: BLE001  # the tests below the promises do damage of any kind
        verdict.wrong.append(f"unreadable: {error!r}")
    return verdict


def fill(folder: Path, image: Image) -> None:
    """Nothing is in the folder but the image."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in image.files.items():
        (folder / name).write_bytes(content)


async def _look(database: Path, verdict: Verdict, chain: Chain, promise: Promise) -> None:
    engine = SqliteEngine(database)
    try:
        sound = await engine._worker.ask(engine._database._store._db.pragma, "integrity_check")
        if sound != "ok":
            verdict.wrong.append(f"unreadable: {sound}")
            return
        verdict.head = engine._database._store.head
        verdict.records = {record.key: record.value for record in await everything(engine)}
        verdict.wrong += compared(verdict.head, verdict.records, chain, promise)
        verdict.wrong += await continued(engine, verdict.records, promise)
    finally:
        await engine.close()


def compared(head: Head, found: Records, chain: Chain, promise: Promise) -> Iterator[str]:
    """The database is as it was after some commit, and nothing that was promised is missing."""
    if head not in chain.heads:
        yield f"strange: no commit has the head {head}"
        return
    number = chain.heads.index(head)
    if found != chain.records[number]:
        keys = sorted(
            key for key in {*found, *chain.records[number]} if found.get(key) != chain.records[number].get(key)
        )
        yield f"strange: after commit {number} these records differ: {keys}"
    if number < promise.commits:
        yield f"lost: {promise.commits - number} commits that had returned"
    if head.seq < promise.seq:
        yield f"lost: the log ends at {head.seq}, and a reply hung on event {promise.seq}"
    yield from gaps(head, found)


def gaps(head: Head, found: Records) -> Iterator[str]:
    horizon = records.decode("h/", found["h/"]).seq if "h/" in found else 0
    events = (records.decode(key, value) for key, value in found.items() if key.startswith("v/"))
    numbers = {event.seq for chunk in events for event in chunk if event.seq > horizon}
    if numbers != set(range(horizon + 1, head.seq + 1)):
        yield f"strange: the log has gaps between {horizon} and {head.seq}"


async def continued(engine: SqliteEngine, found: Records, promise: Promise) -> list[str]:
    """A grantor begins from it: it knows every lease, and its next token was never given out before."""
    grantor = Grantor(engine, LIMITS, member="next", boot_clock_ms=BootClock(), wall_clock_ms=lambda: 2_000_000)
    await soon(grantor.start())
    stored = {key[2:] for key, value in found.items() if key[:2] == "l/" and _is_active(key, value)}
    known = {lease.id for lease in grantor.books.leases.values() if lease.status == "active"}
    ask = Ask(space="space:after", scope="power", holder="next", ttl_ms=1_000)
    answer: Any = grantor.apply(Acquire(ask=ask, lease_id="after-the-cut")).answer
    await soon(grantor.stop())
    wrong = []
    if stored != known:
        wrong.append(f"strange: the grantor knows {known}, stored are {stored}")
    if answer.lease.token <= promise.token:
        wrong.append(f"repeated: token {answer.lease.token}, and {promise.token} was given out before")
    return wrong


def _is_active(key: str, value: bytes) -> bool:
    return bool(records.decode(key, value).status == "active")


@dataclass
class Tally:
    """What many cuts came to."""

    images: int = 0
    torn: int = 0
    commits: int = 0  # that had been acknowledged in the end
    early: int = 0  # images with a commit that nobody had been told of yet
    situations: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def add(self, outage: "Outage", where: str) -> None:
        self.images += 1
        self.torn += outage.image.torn
        self.wrong.update({wrong.partition(":")[0] for wrong in outage.verdict.wrong})
        self.examples += [f"{where}: {wrong}" for wrong in outage.verdict.wrong][: 5 - len(self.examples)]


class Outage(NamedTuple):
    """A cut, and what was left."""

    image: Image
    verdict: Verdict
    promise: Promise


async def cut(life: Life, images: int, folder: Path, rng: Random, tally: Tally) -> list[Outage]:
    """Cut the power of a life at so many instants. Returns those cuts that broke no promise."""
    promises = Promises(life)
    harmless = []
    for instant, image in life.journal.cuts([rng.randint(0, len(life.journal.steps)) for _ in range(images)], rng):
        outage = Outage(image, await judge(image, folder, life.chain, promises.at(instant)), promises.at(instant))
        tally.add(outage, f"step {instant}")
        if not outage.verdict.wrong:
            tally.early += life.chain.heads.index(outage.verdict.head) > outage.promise.commits
            harmless.append(outage)
    tally.commits += promises.at(len(life.journal.steps)).commits
    tally.situations += life.situations()
    return harmless


async def lives(
    count: int,
    images: int,
    folder: Path,
    seed: int,
    *,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
    **disk: bool,
) -> Tally:
    """Life after life, each from what a cut of the one before it left; every life is cut at many instants."""
    rng, tally = Random(seed), Tally()
    start, chain, token = EMPTY, Chain(Head(), {}), 0
    for number in range(count):
        home, place = folder / "home", folder / "image"
        fill(home, start)
        life = Life(home, rng, start=start, chain=chain, token_told=token)
        await life.run(STEPS, **disk)
        share = images // count + (number < images % count)
        harmless = await cut(life, share, place, rng, tally)
        if harmless:
            start, found, promise = rng.choice(harmless)
            chain, token = Chain(found.head, found.records), promise.token
        progress(tally.images, images)
    return tally
