"""Replies that wait until they may leave, and those who wait for one."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Protocol

from openintent.core.answers import Reply

log = logging.getLogger("openintent.grantor")


class Refusal(Enum):
    UNAVAILABLE = "unavailable"  # nothing happened
    OUTCOME_UNKNOWN = "outcome_unknown"  # it may have happened


class NotServing(Exception):
    """There is no grantor here at present; nothing happened."""


class Parcel(Protocol):
    """A reply that is ready to leave."""

    def send(self) -> None: ...

    def refuse(self, refusal: Refusal) -> None: ...


class Waiting(Protocol):
    """An open request that waits for its answer."""

    def answer(self, reply: Reply) -> None: ...

    def refuse(self, refusal: Refusal) -> None: ...


class OpenRequests(dict[int, Waiting]):
    """Those who wait for their answer, each under a number of its own."""

    def __init__(self) -> None:
        self._newest = 0

    def add(self, waiting: Waiting) -> int:
        self._newest += 1
        self[self._newest] = waiting
        return self._newest

    def deliver(self, outbox: Iterable[tuple[int, Reply]]) -> None:
        """One that is gone by now loses only its own answer."""
        for request, reply in outbox:
            waiting = self.pop(request, None)
            if waiting is not None:
                tell(waiting.answer, reply)

    def refuse(self) -> None:
        """All of them: not here, not now."""
        while self:
            tell(self.popitem()[1].refuse, Refusal.UNAVAILABLE)


class Landing:
    """A parcel for one of our own, who only wants to know that what it asked for is durable."""

    def __init__(self) -> None:
        self.durable: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def send(self) -> None:
        self._settle(durable=True)

    def refuse(self, _refusal: Refusal) -> None:
        self._settle(durable=False)

    def _settle(self, *, durable: bool) -> None:
        if not self.durable.done():
            self.durable.set_result(durable)


def settle(parcels: list[Parcel], *, happened: bool | None) -> None:
    """Tell those whose reply hung on one commit what became of it; None if that is not known. Nobody is told twice."""
    told, parcels[:] = list(parcels), []
    if happened:
        send_all(told)
    else:
        refuse_all(told, Refusal.OUTCOME_UNKNOWN if happened is None else Refusal.UNAVAILABLE)


def give_up(parked: dict[int, list[Parcel]]) -> None:
    """Another may lead by now, and answer those who ask anew: nobody is kept waiting for a commit that does not end."""
    while parked:
        settle(parked.popitem()[1], happened=None)


def refuse_all(parcels: list[Parcel], refusal: Refusal) -> None:
    for parcel in parcels:
        tell(parcel.refuse, refusal)


def send_all(parcels: list[Parcel]) -> None:
    for parcel in parcels:  # as `tell` does it, without a call for each
        try:
            parcel.send()
        except Exception:
            log.exception("answer lost")


def tell(how: Callable[..., None], *news: object) -> None:
    """Whoever cannot be told loses its own answer; the others must get theirs, and the writer must go on."""
    try:
        how(*news)
    except Exception:
        log.exception("answer lost")
