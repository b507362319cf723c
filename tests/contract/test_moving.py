"""A ledger, from each engine to another and back; and what must not happen on the way."""

# nothing else runs in these loops

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from engine_words import commit, everything, opened
from moving_words import HEAD, RECORDS, exported, fill, imported, intent, ledger

from openintent.clock import boot_s
from openintent.core.ledger import Ledger
from openintent.engines.base import Change, Deposed, Engine, Head, Put, Record
from openintent.engines.memory import MemoryEngine
from openintent.errors import EngineCorrupt, EngineInUse
from openintent.grantor import moving
from openintent.grantor.leadership import Leadership
from openintent.grantor.moving import NotEmpty, Nothing
from openintent.grantor.storing import load
from openintent.model import Limits

pytestmark = pytest.mark.anyio


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


@pytest.fixture
async def source() -> MemoryEngine:
    engine = MemoryEngine()
    await fill(engine, ledger(RECORDS))
    return engine


async def taken_over(engine: Engine) -> Head:
    """As the next server does it."""
    leader = Leadership(engine, member="next", leader_ttl_s=5.0)
    await leader.take_over()
    return leader.head


async def test_all_of_it_comes_to_every_engine_and_back(kept_url, source, file, tmp_path, figures):
    began = boot_s()
    await exported(source, file)
    async with opened(kept_url) as engine:
        done = await imported(engine, file)
    async with opened(kept_url) as engine:  # another process
        back = await exported(engine, tmp_path / "back.jsonl")
        head = await taken_over(engine)
        assert await everything(engine) == await everything(source)
    assert (head.seq, head.clock_ms) == (HEAD.seq, HEAD.clock_ms)
    assert back.counts == done.summary.counts
    assert file.read_bytes().splitlines()[1:-1] == (tmp_path / "back.jsonl").read_bytes().splitlines()[1:-1]
    figures.add("moved to and from an engine", engine=kept_url.partition(":")[0], records=back.counts.records, lost=0,
                seconds=round(boot_s() - began, 1))  # fmt: skip


async def test_tokens_and_terms_go_on_above_all_that_were(kept_url, source, file):
    await exported(source, file)
    async with opened(kept_url) as engine:
        done = await imported(engine, file)
        head = await taken_over(engine)
    assert head.token >= HEAD.token + 1_000_000_000
    assert head.term > HEAD.term + 1_000
    assert done.head.farewell  # nobody has to wait


async def test_an_engine_that_somebody_has_served_is_refused_as_it_is(kept_url, source, file):
    await exported(source, file)
    async with opened(kept_url) as engine:
        await fill(engine, [intent(1)])
        before = await engine.head()
        with pytest.raises(NotEmpty, match=r"http://h:1 has written to it, in term 7"):
            await imported(engine, file)
        assert await engine.head() == before


async def test_what_was_imported_is_not_imported_over(kept_url, source, file):
    await exported(source, file)
    async with opened(kept_url) as engine:
        await imported(engine, file)
        with pytest.raises(NotEmpty, match="it has records"):
            await imported(engine, file)
        await taken_over(engine)
        assert await everything(engine) == await everything(source)


class Broken(Exception):
    """As if the process had been killed."""


def break_at(label: str) -> moving.Progress:
    def told(what: str, _done: int, _all: int | None) -> None:
        if what == label:
            raise Broken

    return told


async def silent(*_: object) -> None:
    """Who is killed has no last words."""


@pytest.mark.parametrize("when", ["importing", "comparing"])
async def test_an_import_that_was_broken_off_is_not_served_and_can_be_repeated(kept_url, source, file, when):
    await exported(source, file)
    async with opened(kept_url) as engine:
        with pytest.raises(Broken):
            await imported(engine, file, break_at(when))
    async with opened(kept_url) as engine:
        await imported(engine, file)
        head = await taken_over(engine)
        assert await everything(engine) == await everything(source)
        await load(engine, Ledger(Limits(), term=head.term, token=head.token, seq=head.seq, now_ms=0), seen=head)


async def test_one_that_was_killed_is_waited_for_and_then_repeated(kept_url, source, file, monkeypatch):
    await exported(source, file)
    async with opened(kept_url) as engine:
        with monkeypatch.context() as killed:
            killed.setattr(moving.Mover, "leave", silent)
            with pytest.raises(Broken):
                await imported(engine, file, break_at("comparing"))
        assert not (await engine.head()).farewell
    async with opened(kept_url) as engine:
        await imported(engine, file)
        await taken_over(engine)
        assert await everything(engine) == await everything(source)


async def test_no_server_loads_half_an_import(kept_url, source, file):
    await exported(source, file)
    async with opened(kept_url) as engine:
        with pytest.raises(Broken):
            await imported(engine, file, break_at("comparing"))
        head = await taken_over(engine)
        with pytest.raises(EngineCorrupt, match="an import that has not ended: run it again"):
            await load(engine, Ledger(Limits(), term=head.term, token=head.token, seq=head.seq, now_ms=0), seen=head)


async def test_half_an_import_is_not_exported(source, file, tmp_path):
    await exported(source, file)
    target = MemoryEngine()
    with pytest.raises(Broken):
        await imported(target, file, break_at("comparing"))
    with pytest.raises(EngineCorrupt, match="has not ended"):
        await exported(target, tmp_path / "second")
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


# An engine, or an import, that is wrong


class Faulty(MemoryEngine):
    """Does something else than it was told."""

    def __init__(self, spoil: Callable[[list[Change]], list[Change]]) -> None:
        super().__init__()
        self._spoil = spoil

    async def commit(self, *, expect: Head, head: Head, changes: Sequence[Change]) -> None:
        await super().commit(expect=expect, head=head, changes=self._spoil(list(changes)))


def without_one(changes: list[Change]) -> list[Change]:
    return [change for change in changes if not (isinstance(change, Put) and change.key == intent(1).key)]


def with_another(changes: list[Change]) -> list[Change]:
    other = Put(intent(1).key, intent(2).value)
    return [other if isinstance(change, Put) and change.key == other.key else change for change in changes]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [(without_one, r"has 300 records after the import, and the file 301"), (with_another, "other records")],
)
async def test_a_record_that_is_dropped_or_changed_is_noticed(source, file, spoil, said):
    await exported(source, file)
    engine = Faulty(spoil)
    with pytest.raises(EngineCorrupt, match=said if RECORDS == 300 else "records"):
        await imported(engine, file)
    assert moving.UNFINISHED.key in [record.key for record in await everything(engine)]


# Who else is there


class Shared(MemoryEngine):
    """Several processes can have it."""

    guarantees = msgspec.structs.replace(MemoryEngine.guarantees, exclusive_open=False)


async def beating(engine: Engine) -> None:
    while True:
        await asyncio.sleep(0.02)
        await commit(engine)


async def test_a_server_that_lives_is_not_deposed(file):
    engine = Shared()
    await fill(engine, [intent(1)], msgspec.structs.replace(HEAD, farewell=False))
    server = asyncio.create_task(beating(engine))
    with pytest.raises(EngineInUse, match=r"in use by http://h:1, in term 7"):
        await exported(engine, file, leader_ttl_s=10.0)
    assert (await engine.head()).term == HEAD.term
    server.cancel()
    assert not file.exists()


async def test_one_that_was_killed_is_waited_for_as_long_as_it_might_live(file):
    engine = Shared()
    await fill(engine, [intent(1)], msgspec.structs.replace(HEAD, farewell=False))
    began = boot_s()
    await exported(engine, file, leader_ttl_s=0.3)
    assert boot_s() - began >= 0.3
    assert (await engine.head()).term == HEAD.term + 1


async def test_one_that_says_farewell_meanwhile_is_not_waited_for_any_longer(file):
    engine = Shared()
    await fill(engine, [intent(1)], msgspec.structs.replace(HEAD, farewell=False))
    leaving = asyncio.get_running_loop().call_later(0.05, lambda: asyncio.ensure_future(commit(engine, farewell=True)))
    await asyncio.wait_for(exported(engine, file, leader_ttl_s=50.0), 20)
    assert leaving.when() <= asyncio.get_running_loop().time()
    assert file.exists()


class Slow(Shared):
    """Somebody else takes over while it is read."""

    async def scan(self, first: str, last: str, *, limit: int, reverse: bool = False) -> list[Record]:
        await Leadership(self, member="other", leader_ttl_s=0.01).take_over()
        return await super().scan(first, last, limit=limit, reverse=reverse)


async def test_what_somebody_wrote_over_is_no_export(file, tmp_path):
    engine = Slow()
    await fill(engine, [intent(1)])
    with pytest.raises(Deposed):
        await exported(engine, file)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.alone
async def test_nobody_takes_over_while_it_is_read_for_long(file):
    """The leader ttl passes several times."""

    class Long(Shared):
        async def scan(self, first: str, last: str, *, limit: int, reverse: bool = False) -> list[Record]:
            rival = Leadership(self, member="other", leader_ttl_s=0.4)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(rival.take_over(), 1.0)
            return await super().scan(first, last, limit=limit, reverse=reverse)

    engine = Long()
    await fill(engine, [intent(1)])
    await exported(engine, file, leader_ttl_s=0.3)
    assert file.exists()


async def test_after_an_export_the_old_engine_can_be_served_again(kept_url, file):
    async with opened(kept_url) as engine:
        await fill(engine, ledger(20))
        await exported(engine, file)
        head = await taken_over(engine)
        assert (head.term, head.token, head.seq) == (HEAD.term + 2, HEAD.token, HEAD.seq)


async def test_there_is_nothing_to_export_of_an_empty_engine(kept_url, file):
    async with opened(kept_url) as engine:
        with pytest.raises(Nothing):
            await exported(engine, file)
        assert (await engine.head()).term == 0
    assert not file.exists()
