"""Power cuts while the lock file is written: no token that was reserved is free again afterwards."""

from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from powercheck import fill
from powerdisk import Image, Journal
from powervfs import recorded

from openintent.engines.base import Head
from openintent.engines.lockfile import TOKEN_BLOCK, LockFile

FATES = 20  # of each instant
LONG = 400  # the address, and with it an entry that is in two sectors


class Reserved(NamedTuple):
    token: int


def work(journal: Journal, database: Path, *, fsyncs: bool = True) -> None:
    """Three servers one after the other: one is killed, one stops in order, one runs."""
    with recorded(journal, database.parent, fsyncs=fsyncs):
        for server in range(3):
            lock = LockFile(database)
            head = lock.admit(Head(term=server), address=f"{server}" * LONG)
            for term in (server, server + 1):
                token = head.token + TOKEN_BLOCK + term
                lock.prepare(durable_term=term, token=token)
                journal.mark(Reserved(token))
                lock.announce("x" * LONG)
            if server == 1:
                lock.stamp(Head(term=1, token=token))
            lock.release()


def next_token(image: Image, folder: Path) -> int:
    """What a server starts from that finds the lock file, and a database that lost everything."""
    fill(folder, image)
    lock = LockFile(folder / "leases.db")
    token = lock.admit(Head(), address="").token
    lock.release()
    return token


def repeated(folder: Path, *, fsyncs: bool) -> list[str]:
    """Every cut after which a token that was reserved is free again."""
    journal, rng = Journal(), Random(1)
    home = folder / "home"
    home.mkdir()
    work(journal, home / "leases.db", fsyncs=fsyncs)
    reserved = journal.notes(Reserved)
    found = []
    for instant, image in journal.cuts(range(len(journal.steps) + 1), rng, fates=FATES):
        token = next_token(image, folder / "image")
        most = max((note.token for at, note in reserved if at <= instant), default=0)
        found += [f"step {instant}: {token} after {most}"] if token < most else []
    return found


def test_a_cut_at_any_instant_frees_no_token_that_was_reserved(folder):
    assert repeated(folder, fsyncs=True) == []


def test_without_a_sync_tokens_would_be_free_again(folder):
    assert repeated(folder, fsyncs=False) != []


@pytest.mark.parametrize("instant", [1, 2])
def test_a_lock_file_that_has_come_into_being_and_no_further_stops_nobody(folder, instant):
    journal, home = Journal(), folder / "home"
    home.mkdir()
    work(journal, home / "leases.db")
    for _, image in journal.cuts([instant], Random(2), fates=FATES):
        assert next_token(image, folder / "image") in (0, TOKEN_BLOCK)
