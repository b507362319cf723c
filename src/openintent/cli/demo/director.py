"""Who is killed, who hangs, and when: decided by what is seen, and carried out on the cast."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from openintent.cli.demo.cast import Cast
from openintent.cli.demo.scene import Accident, Kind, Scene
from openintent.client.lease import Lease
from openintent.client.values import Waiter

KILL_SHARE: Final = 0.25  # of the time
HANG_SHARE: Final = 0.55
ASLEEP_S: Final = 0.5  # how long after the takeover a frozen agent wakes up: long enough to be seen

CAPTIONS: Final = {
    "contend": "Six agents, each a process of its own, want three scopes. One holds a scope at a time; who waits is "
    "served in order; each grant has a larger token.",
    "killed": "{holder} is dead and cannot say so. Its lease is just not renewed any more: when the ttl is over, the "
    "next in line has the scope.",
    "after": "The work went on without {holder}. Nobody had to notice, and nobody had to clean up.",
    "hung": "{holder} hangs, and still believes that it holds {scope}. Its lease lapses like that of a dead one.",
    "woken": "{holder} is awake again, knows nothing of what it missed, and writes. Its token is not the live one, so "
    "the write is refused: that is what tokens are for.",
}


class Director:
    """`is_live` asks the server whether a lease is."""

    def __init__(self, cast: Cast, scene: Scene, is_live: Callable[[str], bool], *, seconds: float) -> None:
        self._cast = cast
        self._scene = scene
        self._is_live = is_live
        self._seconds = seconds
        self._dead: set[str] = set()
        self._woken = False

    @property
    def finished(self) -> bool:
        """Whether all has been shown, however long that took."""
        killed, hung = self._scene.of_kind("killed"), self._scene.of_kind("hung")
        return killed is not None and hung is not None and None not in (killed.taken_at, hung.taken_at, hung.refused)

    @property
    def caption(self) -> str:
        killed, hung = self._scene.of_kind("killed"), self._scene.of_kind("hung")
        if hung is not None:
            return CAPTIONS["woken" if self._woken else "hung"].format(holder=hung.holder, scope=hung.scope)
        if killed is not None:
            return CAPTIONS["killed" if killed.taken_at is None else "after"].format(holder=killed.holder)
        return CAPTIONS["contend"]

    def state_of(self, agent: str, leases: Sequence[Lease]) -> str:
        hung = self._scene.of_kind("hung")
        if agent in self._dead:
            return "killed"
        if hung is not None and hung.holder == agent and not self._woken:
            return "hangs"
        return "works" if any(lease.agent_id == agent for lease in leases) else "waits"

    def step(self, *, passed_s: float, leases: Sequence[Lease], waiters: Sequence[Waiter]) -> None:
        self._follow(leases)
        killed, hung = self._scene.of_kind("killed"), self._scene.of_kind("hung")
        if killed is None and passed_s >= self._seconds * KILL_SHARE:
            self._strike("killed", leases, waiters)
        elif killed is not None and killed.taken_at and hung is None and passed_s >= self._seconds * HANG_SHARE:
            self._strike("hung", leases, waiters)
        elif hung is not None and hung.taken_at is not None and not self._woken:
            self._wake(hung)

    def _follow(self, leases: Sequence[Lease]) -> None:
        """A renewal that was on its way at the accident may still have moved the deadline."""
        seen = {lease.id: lease for lease in leases}
        for accident in self._scene.accidents:
            if accident.lease_id in seen:
                accident.expires_at = seen[accident.lease_id].expires_at

    def _strike(self, kind: Kind, leases: Sequence[Lease], waiters: Sequence[Waiter]) -> None:
        """The victim holds what others wait for: the more, the better the story."""
        waiting = Counter(waiter.scope for waiter in waiters)
        victims = [lease for lease in leases if waiting[lease.scope] and lease.agent_id not in self._dead]
        if not victims:
            return
        lease = max(victims, key=lambda one: waiting[one.scope])
        self._cast.freeze(lease.agent_id)
        if not self._is_live(lease.id):  # it gave it back between our look and this
            self._cast.wake(lease.agent_id)
            return
        if kind == "killed":
            self._cast.kill(lease.agent_id)
            self._dead.add(lease.agent_id)
        now = datetime.now(UTC)
        self._scene.strike(Accident(kind, lease.agent_id, lease.scope, lease.token, lease.id, now, lease.expires_at))

    def _wake(self, hung: Accident) -> None:
        assert hung.taken_at is not None
        if (datetime.now(UTC) - hung.taken_at).total_seconds() >= ASLEEP_S:
            self._woken = True
            self._cast.wake(hung.holder)
