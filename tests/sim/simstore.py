"""A resource that checks tokens: the last line, against writers that come too late."""

from typing import NamedTuple

from history import History, overlap
from simloop import Scheduler


class Write(NamedTuple):
    at: float
    client: str
    scope: str
    token: int
    accepted: bool


class FencedStore:
    """Remembers the largest token that it has seen in each scope, and refuses a smaller one in any that overlaps."""

    def __init__(self, scheduler: Scheduler, history: History) -> None:
        self._scheduler = scheduler
        self._history = history
        self._largest: dict[str, int] = {}
        self.log: list[Write] = []

    def send(self, client: str, scope: str, token: int, delay_s: float) -> None:
        """A write that is under way from now on; its sender may be dead before it arrives."""
        self._scheduler.after(delay_s, self._write, client, scope, token)

    def _write(self, client: str, scope: str, token: int) -> None:
        self._scheduler.happened()
        seen = max([large for other, large in self._largest.items() if overlap(scope, other)], default=0)
        accepted = token >= seen
        if accepted:
            self._largest[scope] = max(token, self._largest.get(scope, 0))
        else:
            self._history.count("stale write refused")
        self.log.append(Write(self._scheduler.now, client, scope, token, accepted))
        verb = "takes" if accepted else "refuses"
        self._history.tell("the store {} token {} of {} in {}", verb, token, client, scope)
