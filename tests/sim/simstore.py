"""A resource that checks tokens: the last line, against writers that come too late."""

from simloop import Scheduler

from openintent.core.scopes import covers


class FencedStore:
    """Remembers the largest token that it has seen in each scope, and refuses a smaller one in any that overlaps."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._largest: dict[str, int] = {}
        self.log: list[tuple[float, str, str, int, bool]] = []

    def send(self, client: str, scope: str, token: int, delay_s: float) -> None:
        """A write that is under way from now on; its sender may be dead before it arrives."""
        self._scheduler.after(delay_s, lambda: self._write(client, scope, token))

    def _write(self, client: str, scope: str, token: int) -> None:
        seen = max((large for other, large in self._largest.items() if _overlap(scope, other)), default=0)
        accepted = token >= seen
        if accepted:
            self._largest[scope] = max(token, self._largest.get(scope, 0))
        self.log.append((self._scheduler.now, client, scope, token, accepted))


def _overlap(one: str, other: str) -> bool:
    return covers(one, other) or covers(other, one)
