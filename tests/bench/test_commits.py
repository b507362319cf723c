"""Commits are counted from outside, while the server has its engine open."""

import asyncio

import commits
import load
import pytest
from commits import Counted
from msgspec.structs import replace

from openintent.engines import open_engine
from openintent.engines.base import Head, New

FIRST = Head(term=1, beat=1, rev=0, member="m")


class Writer:
    """Commits so many commands at a time."""

    def __init__(self, url):
        self.engine, self.head = open_engine(url), Head()

    async def commit(self, head):
        changes = [New(f"e/{head.term}/{head.beat}", b"x")]
        await self.engine.commit(expect=self.head, head=head, changes=changes)
        self.head = head

    async def commit_many(self, number, *, commands):
        for _ in range(number):
            await self.commit(replace(self.head, beat=self.head.beat + 1, rev=self.head.rev + commands))


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/x.db"


def measured_by(url, work):
    """What is counted while a writer, who has the file open, does some work."""

    async def run():
        writer = Writer(url)
        try:
            await writer.commit(FIRST)

            def measure():
                asyncio.run_coroutine_threadsafe(work(writer), loop).result(10)
                return {"requests_per_s": 1_000.0}

            loop = asyncio.get_running_loop()
            return await asyncio.to_thread(Counted(url, measure))
        finally:
            await writer.engine.close()

    return asyncio.run(run())


def test_the_head_is_seen_while_another_has_the_file_open_and_after_all_is_folded(url):
    async def run():
        writer = Writer(url)
        await writer.commit(FIRST)
        seen = commits.head(url)
        await writer.commit_many(2, commands=5)
        await writer.engine.scan("", "~", limit=1)  # which folds all: the journal is empty then
        folded = commits.head(url)
        await writer.engine.close()
        return seen, folded

    assert asyncio.run(run()) == (FIRST, replace(FIRST, beat=3, rev=10))


def test_a_batch_is_what_was_applied_for_each_commit(url):
    found = measured_by(url, lambda writer: writer.commit_many(4, commands=25))
    assert found == {"requests_per_s": 1_000.0, "batch": 25.0, "commits_per_s": 40.0}


def test_what_is_not_committed_makes_no_batch(url):
    async def nothing(_writer):
        return

    assert measured_by(url, nothing) == {"requests_per_s": 1_000.0, "batch": 0.0, "commits_per_s": 0.0}


def test_what_two_terms_committed_is_not_counted_together(url):
    with pytest.raises(load.LoadFailed, match="new term"):
        measured_by(url, lambda writer: writer.commit(replace(FIRST, term=2)))
