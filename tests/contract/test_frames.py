"""What is said to the process of a SQLite file: each message is written once, and not kept."""

import sys
from pathlib import Path

import pytest
from engine_words import following, keys

from openintent.engines.apart import ApartEngine
from openintent.engines.apart_words import Commit, CommitHeard, Inbox, Outbox, decode_request
from openintent.engines.base import Change, Delete, Deposed, Head, New, Put
from openintent.engines.sqlite_database import decode_changes

pytestmark = pytest.mark.anyio

LARGE = 10_000_000
SIZES = (0, 1, 300, 70_000, 2, 1_000_000, 5)


def test_each_frame_is_whole_whatever_the_one_before_it_was_like():
    outbox, inbox = Outbox(), Inbox()
    said: list[list[Change]] = [[New("k", bytes([size % 251]) * size), Delete("l")] for size in SIZES]
    for changes in said:
        inbox.add(bytes(outbox.frame(Commit(Head(), Head(1, 1), changes))))
    heard = [decode_request(message) for message in inbox.messages()]
    assert [type(each) for each in heard] == [CommitHeard] * len(said)
    assert [list(decode_changes(each.changes)) for each in heard] == said


def test_a_large_frame_is_not_kept_for_good():
    outbox = Outbox()
    outbox.frame(Commit(Head(), Head(1, 1), [Put("k", bytes(LARGE))]))
    assert sys.getsizeof(outbox.frame(Commit(Head(), Head(1, 1), []))) < LARGE // 2


async def test_a_commit_that_cannot_be_written_takes_nobody_elses_answer(tmp_path: Path):
    engine = ApartEngine(tmp_path / "leases.db")
    first = following(Head())
    with pytest.raises(UnicodeEncodeError):
        engine.commit(expect=Head(), head=first, changes=[Put("\ud800", b"")])
    await engine.commit(expect=Head(), head=first, changes=[Put("k", b"")])
    assert await engine.head() == first
    with pytest.raises(Deposed):
        await engine.commit(expect=Head(), head=first, changes=[])
    assert await keys(engine) == ["k"]
    await engine.close()


async def test_what_a_commit_stores_is_not_kept_once_it_is_sent(tmp_path: Path):
    engine = ApartEngine(tmp_path / "leases.db")
    value = bytearray(100)
    known = sys.getrefcount(value)
    under_way = engine.commit(expect=Head(), head=following(Head()), changes=[Put("k", value)])
    assert sys.getrefcount(value) == known  # though there is no answer yet
    await under_way
    await engine.close()
