"""What an engine must be able to do: commit a batch if the head is still the one that was seen.

An engine promises that a commit is whole or absent, that it is durable when it returns (as far as its `Guarantees`
say), that of two writers with the same expected head at most one succeeds, and that a scan sees every commit that
returned. It promises nothing about time and elects nobody: that is `grantor/leadership.py`, once for all engines.
"""

from collections.abc import Awaitable, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from openintent.errors import EngineError


class Head(msgspec.Struct, frozen=True, array_like=True):
    """The newest commit. Whoever can move it from the one he saw is the writer."""

    term: int = 0  # one reign of one grantor
    beat: int = 0  # commits of this term so far; moves also when nothing else does
    rev: int = 0  # commands applied in this term when it was committed
    clock_ms: int = 0  # ledger time at the commit
    member: str = ""  # who wrote it
    token: int = 0  # the largest token ever granted
    seq: int = 0  # the newest event
    farewell: bool = False  # the last commit of a term that ended cleanly


class Put(msgspec.Struct, frozen=True, array_like=True, tag=1):
    key: str
    value: bytes


class New(Put, frozen=True, array_like=True, tag=4):
    """A put under a key that was never used before. If that goes again soon, it need never have been stored apart."""


class Delete(msgspec.Struct, frozen=True, array_like=True, tag=2):
    key: str


class DeleteRange(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Every key from `first` up to but not including `last`."""

    first: str
    last: str


Change = Put | New | Delete | DeleteRange


class Record(msgspec.Struct, frozen=True):
    key: str
    value: bytes


class Guarantees(msgspec.Struct, frozen=True):
    """What an engine declares of itself; the conformance suite asserts just this."""

    durable: bool  # a commit that returned survives kill -9 and power loss
    survives_node_loss: bool
    exclusive_open: bool  # one process at a time, held by an OS lock: no election is needed
    batch_bytes_max: int | None = None


class Deposed(EngineError):
    """The head is not the expected one: somebody else writes now, and nothing of this commit happened."""

    def __init__(self, actual: Head) -> None:
        super().__init__(f"the head is at term {actual.term}, rev {actual.rev}, written by {actual.member!r}")
        self.actual = actual


class OutcomeUncertain(EngineError):
    """The commit may or may not have happened. `reopen`, then look at the head."""


class Engine(Protocol):
    """Keys are ordered by their UTF-8 bytes, and compared without regard to any locale."""

    @property
    def guarantees(self) -> Guarantees: ...

    @property
    def notice(self) -> str | None:
        """One line that an operator should read, if there is one."""
        ...

    async def announce(self, address: str) -> None:
        """Tell others who find the engine in use where this process can be reached."""
        ...

    async def head(self) -> Head:
        """The newest head, `Head()` if there is none. Linearizable."""
        ...

    def commit(self, *, expect: Head, head: Head, changes: Sequence[Change]) -> Awaitable[None]:
        """Store all changes in order and move the head, or do nothing. It may begin before anybody waits for it.

        Raises `Deposed` if the head is not `expect` (term, beat and rev are compared), `OutcomeUncertain` if it
        cannot be told, `EngineUnavailable` if surely nothing happened.
        """
        ...

    async def scan(self, first: str, last: str, *, limit: int, reverse: bool = False) -> list[Record]:
        """At most `limit` records with first <= key < last, in the order of keys; sees every commit that returned."""
        ...

    async def changed(self, seen: Head) -> None:
        """Return when the head may have moved from `seen`. Only a hint: it may be early, late or wrong."""
        ...

    async def reopen(self) -> None:
        """After `OutcomeUncertain`: make what is durable visible again, and prove that the engine can write."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class CommitsHere(Protocol):
    """An engine that can also commit on the spot: sooner for one who is alone, but who calls waits for the disk."""

    def commit_here(self, *, expect: Head, head: Head, changes: Sequence[Change]) -> bool:
        """As `Engine.commit`, and all over when it returns. False: not now, and nothing happened."""
        ...
