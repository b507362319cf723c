"""Which files this process takes part in serving. All clients of one file share one member."""

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from openintent.embedded import forks
from openintent.embedded.stint import Stint
from openintent.errors import OpenIntentError


class Member:
    """One file. Its thread starts when somebody asks where the file is served, and ends when nobody needs it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.users = 0
        self._changing = threading.RLock()  # a handler of signals may close a client
        self._stint: Stint | None = None
        self._aside = False

    def where(self) -> str | None:
        stint = self._stint or self._begin()
        if stint is None:
            return None
        if stint.failure is not None:
            self._forget(stint)  # who asks again makes a new start: what was wrong may have been mended
            raise OpenIntentError(f"{self.path} cannot be served: {stint.failure}", code="engine_failed")
        return stint.where

    def _forget(self, stint: Stint) -> None:
        with self._changing:
            if self._stint is stint:  # and not one that another thread has begun since
                self._stint = None

    def trouble(self) -> str:
        return "this process has stepped aside" if self._stint is None else self._stint.trouble

    def stop(self) -> None:
        """Let another process serve the file, whoever asks here, until `come_back`."""
        with self._changing:
            self._aside = True
            stint, self._stint = self._stint, None
        if stint is not None:
            stint.stop()

    def come_back(self) -> None:
        self._aside = False

    def _begin(self) -> Stint | None:
        with self._changing:
            if self._stint is None and not self._aside:
                stint = Stint(self.path)
                stint.start()  # if the system has no thread left, whoever asks again makes a new start
                self._stint = stint
            return self._stint


class Membership:
    """One client's part in a member. What a client joins with its first request and leaves when it is closed."""

    def __init__(self, member: Member) -> None:
        self._member: Member | None = member
        self.trouble = member.trouble

    def where(self) -> str | None:
        member = self._member
        if member is None:  # a request that was under way: it must not begin to serve the file for nobody
            raise RuntimeError("the client is closed")
        return member.where()

    def leave(self) -> None:
        member, self._member = self._member, None
        if member is not None:
            _members.leave(member)


class _Members:
    """Those of this process."""

    def __init__(self) -> None:
        self._start_anew()

    def _start_anew(self) -> None:
        self._changing = threading.RLock()  # a handler of signals may close a client
        self._by_path: dict[Path, Member] = {}

    def join(self, path: Path) -> Membership:
        with self._changing:
            member = self._by_path.setdefault(path, Member(path))
            member.users += 1
            return Membership(member)

    def leave(self, member: Member) -> None:
        with self._changing:
            member.users -= 1
            # A member of the process that we were forked from is not ours to stop.
            if member.users or self._by_path.get(member.path) is not member:
                return
            del self._by_path[member.path]
        member.stop()  # for good: whoever joins from now on joins another

    def all(self) -> list[Member]:
        with self._changing:
            return list(self._by_path.values())

    def end(self) -> None:
        """At the end of the program: others should not have to wait for a crash to be noticed."""
        for member in self.all():
            member.stop()

    def forget(self) -> None:
        """A forked child has neither its parent's threads nor its place. If it uses a client, it joins by itself."""
        self._inherited = self._by_path  # not to be used, and not to be closed by the collector either
        self._start_anew()
        forks.let_go(self._inherited)


_members: Final = _Members()
join: Final = _members.join
atexit.register(_members.end)
os.register_at_fork(after_in_child=_members.forget)


@contextmanager
def stepped_aside() -> Iterator[None]:
    """For a process that is about to stand still: meanwhile others serve the files that it has served."""
    members = _members.all()
    for member in members:
        member.stop()
    try:
        yield
    finally:
        for member in members:
            member.come_back()
