"""What every engine promises. An engine's declared `Guarantees` choose among these tests; nothing else does."""

import asyncio
import random

import pytest
from engine_words import LAST, Opener, commit, everything, following, keys, puts
from msgspec import structs

from openintent.engines import open_engine
from openintent.engines.base import Change, Delete, DeleteRange, Deposed, Engine, Head, Put, Record
from openintent.engines.memory import MemoryEngine
from openintent.model import Limits

pytestmark = pytest.mark.anyio


async def test_a_new_engine_has_the_empty_head_and_no_records(engine: Engine):
    assert await engine.head() == Head()
    assert await everything(engine) == []


async def test_a_commit_moves_the_head_and_stores_its_changes(engine: Engine):
    head = Head(term=1, beat=1, rev=3, clock_ms=17, member="a", token=5, seq=9, farewell=True)
    await engine.commit(expect=Head(), head=head, changes=[Put("k", b"\x00\xff")])
    assert await engine.head() == head
    assert await everything(engine) == [Record("k", b"\x00\xff")]


async def test_an_empty_commit_moves_the_head_and_nothing_else(engine: Engine):
    await commit(engine, Put("k", b"1"))
    head = await commit(engine)
    assert await engine.head() == head
    assert await keys(engine) == ["k"]


async def test_a_deposed_writer_commits_nothing(engine: Engine):
    seen = await commit(engine, term=1)
    taken = await commit(engine, term=2, member="b")
    with pytest.raises(Deposed) as deposed:
        await engine.commit(expect=seen, head=following(seen), changes=[Put("k", b"late")])
    assert deposed.value.actual == taken
    assert await engine.head() == taken
    assert await everything(engine) == []


@pytest.mark.parametrize("field", ["term", "beat", "rev"])
async def test_term_beat_and_rev_are_each_compared(engine: Engine, field: str):
    head = Head(term=2, beat=2, rev=2)
    await engine.commit(expect=Head(), head=head, changes=[])
    with pytest.raises(Deposed):
        await engine.commit(expect=structs.replace(head, **{field: 1}), head=following(head), changes=[])


async def test_the_rest_of_the_head_is_not_compared(engine: Engine):
    seen = await commit(engine, member="a", clock_ms=1)
    await engine.commit(expect=structs.replace(seen, member="b", clock_ms=2), head=following(seen), changes=[])
    assert (await engine.head()).beat == 2


async def test_of_two_writers_with_the_same_expectation_one_succeeds(engine: Engine):
    seen = await engine.head()
    attempts = [
        engine.commit(expect=seen, head=following(seen, member=name), changes=[Put(name, b"")]) for name in "abcd"
    ]
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    assert sum(isinstance(outcome, Deposed) for outcome in outcomes) == 3
    assert await keys(engine) == [(await engine.head()).member]


async def test_a_batch_that_is_refused_leaves_no_trace_of_any_change(engine: Engine):
    await commit(engine, *puts(["a", "b"]))
    with pytest.raises(Deposed):
        await engine.commit(expect=Head(term=9), head=Head(term=10), changes=[DeleteRange("", LAST), Put("c", b"")])
    assert await keys(engine) == ["a", "b"]


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ([Put("b", b"1"), Put("b", b"2")], {"b": b"2"}),
        ([Put("b", b"1"), Delete("b")], {}),
        ([Delete("b"), Put("b", b"1")], {"b": b"1"}),
        ([Put("b", b"1"), DeleteRange("a", "c")], {}),
        ([DeleteRange("a", "c"), Put("b", b"1")], {"b": b"1"}),
        ([Put("b", b"1"), DeleteRange("a", "c"), Put("b", b"2"), Delete("old")], {"b": b"2"}),
        ([Put("b", b"1"), DeleteRange("b", "b")], {"b": b"1"}),
        ([Put("b", b"1"), DeleteRange("c", "a")], {"b": b"1"}),
        ([Put("b", b""), Put("c", b"1"), DeleteRange("b", "c")], {"c": b"1"}),
        ([Delete("never there")], {}),
    ],
)
async def test_changes_take_effect_in_their_order(engine: Engine, changes: list[Change], left: dict[str, bytes]):
    await commit(engine, Put("b", b"old"), Put("old", b"old"))
    await commit(engine, DeleteRange("", LAST), *changes)
    assert {record.key: record.value for record in await everything(engine)} == left


async def test_order_counts_across_commits_too(engine: Engine):
    await commit(engine, *puts(["a", "b", "c"]))
    await commit(engine, DeleteRange("a", "c"))
    await commit(engine, Put("a", b"again"))
    assert await everything(engine) == [Record("a", b"again"), Record("c", b"c")]


async def test_a_range_ends_before_its_last_key(engine: Engine):
    await commit(engine, *puts(["a", "a/1", "a/2", "a0", "b"]))
    await commit(engine, DeleteRange("a/", "a0"))
    assert await keys(engine) == ["a", "a0", "b"]


async def test_a_scan_sees_every_commit_that_returned(engine: Engine):
    for number in range(30):
        await commit(engine, Put(f"{number:03}", b""))
        assert len(await everything(engine)) == number + 1


async def test_a_scan_has_bounds_a_limit_and_a_direction(engine: Engine):
    await commit(engine, *puts(["a", "b", "c", "d", "e"]))

    async def found(first: str, last: str, *, limit: int, reverse: bool = False) -> str:
        records = await engine.scan(first, last, limit=limit, reverse=reverse)
        return "".join(record.key for record in records)

    assert await found("b", "d", limit=10) == "bc"
    assert await found("b", "d", limit=10, reverse=True) == "cb"
    assert await found("", LAST, limit=2) == "ab"
    assert await found("", LAST, limit=2, reverse=True) == "ed"
    assert await found("", LAST, limit=0) == ""
    assert await found("d", "b", limit=10) == ""


async def test_pages_join_without_gap_or_overlap(engine: Engine):
    names = [f"{number:04}" for number in range(95)]
    await commit(engine, *puts(names))
    seen: list[str] = []
    first = ""
    while page := await engine.scan(first, LAST, limit=10):
        seen += [record.key for record in page]
        first = page[-1].key + "\0"
    assert seen == names


async def test_keys_are_ordered_by_their_utf8_bytes(engine: Engine):
    names = ["", "\0", "A", "Z", "a", "a\0", "a\0b", "aa", "é", "z", "ß", "中", "\ufffd", "\U0001f600"]
    await commit(engine, *puts(random.Random(1).sample(names, len(names))))
    assert await keys(engine) == sorted(names, key=str.encode)
    # UTF-16 would have these two the other way round.
    assert [record.key for record in await engine.scan("\ufffd", LAST, limit=9)] == ["\ufffd", "\U0001f600"]


async def test_keys_may_be_as_long_as_names_allow(engine: Engine):
    limits, rng = Limits(), random.Random(5)
    # Of four bytes each, and with nothing in common that could be left out.
    noise = "".join(chr(rng.randrange(0x10000, 0x10FFFF)) for _ in range(limits.scope_chars_max))
    names = [f"c/coordinator:space:{noise[: limits.name_chars_max]}\t{noise[:-1]}{end}" for end in "abc"]
    await commit(engine, *puts(names[::-1]))
    assert await keys(engine) == names
    await commit(engine, Delete(names[0]), DeleteRange(names[1], names[2]))
    assert await keys(engine) == names[2:]


async def test_a_value_may_be_large(engine: Engine):
    value = random.Random(1).randbytes(3_000_000)
    await commit(engine, Put("state", value), Put("empty", b""))
    assert await everything(engine) == [Record("empty", b""), Record("state", value)]


async def test_ten_thousand_records_in_one_batch(engine: Engine):
    names = [f"{number:05}" for number in range(10_000)]
    await commit(engine, *puts(names))
    await commit(engine, *(Delete(name) for name in names[1::2]))
    assert await keys(engine) == names[::2]


async def test_any_history_ends_as_the_plain_model_says(opener: Opener):
    """Commits, scans and ranges in random order, against the engine that is too simple to be wrong."""
    rng = random.Random(7)
    model = MemoryEngine()
    async with opener() as engine:
        for _ in range(300):
            changes = [_random_change(rng) for _ in range(rng.randrange(12))]
            await commit(engine, *changes)
            await commit(model, *changes)
            if rng.random() < 0.1:
                assert await everything(engine) == await everything(model)
        assert await everything(engine) == await everything(model)


def _random_change(rng: random.Random) -> Change:
    first, last = (f"{rng.randrange(60):02}" for _ in range(2))
    kinds = [Put(first, rng.randbytes(3)), Put(last, rng.randbytes(3)), Delete(first), DeleteRange(first, last)]
    return rng.choices(kinds, weights=[5, 5, 3, 1])[0]


async def test_changed_returns_at_once_if_the_head_is_another(engine: Engine):
    await commit(engine)
    await asyncio.wait_for(engine.changed(Head()), timeout=5)


async def test_changed_returns_when_the_head_moves(engine: Engine):
    waiting = asyncio.create_task(engine.changed(await engine.head()))
    await asyncio.sleep(0)
    await commit(engine)
    await asyncio.wait_for(waiting, timeout=5)


async def test_reopening_a_sound_engine_changes_nothing(engine: Engine):
    head = await commit(engine, Put("k", b"1"), token=7)
    await engine.reopen()
    assert await engine.head() == head
    await commit(engine, Put("l", b"2"))
    assert await keys(engine) == ["k", "l"]


async def test_a_writer_that_lets_a_token_fall_is_stopped(engine: Engine):
    await commit(engine, token=5)
    with pytest.raises(AssertionError):
        await commit(engine, token=4)
    assert (await engine.head()).token == 5


async def test_a_durable_engine_is_the_same_after_it_was_closed(opener: Opener):
    async with opener() as engine:
        if not engine.guarantees.durable:
            pytest.skip("declared not durable")
        await commit(engine, *puts(["a", "b"]))
        head = await commit(engine, Delete("a"), Put("c", b"c"), member="m", token=3, seq=4)
    async with opener() as engine:
        assert await engine.head() == head
        assert await keys(engine) == ["b", "c"]


async def test_closing_twice_is_harmless(engine: Engine):
    await engine.close()
    await engine.close()


@pytest.mark.parametrize(
    "url", ["mysql://x", "", "sqlite:", "sqlite:leases.db", "sqlite://leases.db", "sqlite:///", "memory:x"]
)
def test_a_url_that_names_no_engine_is_refused_with_what_is_offered(url: str):
    with pytest.raises(ValueError, match=r"sqlite:///|memory:"):
        open_engine(url)
