"""Which servers share the engine. The one that leads knows, because the others look at it every few seconds.

A look names both members in full. The part behind the `#` is known to those alone who read the engine: so nobody else
can put a server on the list. Not promised: that the list is right. It is for people; nothing is decided by it.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from openintent.chance import SPREAD
from openintent.clock import boot_s
from openintent.grantor.grantor import Grantor
from openintent.grantor.leadership import LEADER_TTL_S
from openintent.server.forwarding import BY, TO, Forwarder, url_of
from openintent.server.leaderline import Unanswered
from openintent.wire import API, ClusterMemberView, ClusterView, EngineView

log = logging.getLogger("openintent.server")

LOOK_S: Final = 3.0
LOOK_SPREAD_S: Final = 1.0  # so much more or less: those who were started together need not look together
NOTICE_S: Final = 0.25  # a new leader is looked at as soon as that
ANSWER_S_MAX: Final = 2.0
FORGET_S: Final = 15.0  # after four looks that did not come
MEMBERS_MAX: Final = 64
MEMBER: Final = re.compile(rb"http://[A-Za-z0-9.\[\]:_-]{1,255}#[0-9a-z-]{1,32}")
SHOWN_AGAIN: Final = (b"x-api-key", b"authorization")  # what lets a question in over there


class Cluster:
    """The part of this server, and what it has heard of the others."""

    def __init__(
        self,
        grantor: Grantor,
        *,
        member: str = "",
        scheme: str = "memory",
        leader_ttl_s: float = LEADER_TTL_S,
        forwarder: Forwarder | None = None,
        clock_s: Callable[[], float] = boot_s,
    ) -> None:
        self._grantor = grantor
        self._member = member
        self._scheme = scheme
        self._leader_ttl_s = leader_ttl_s
        self._forwarder = forwarder
        self._clock_s = clock_s
        self._heard_s: dict[str, float] = {}  # by address
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._forwarder is not None:
            self._task = asyncio.create_task(self._look_forever(self._forwarder))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    @property
    def role(self) -> str:
        return "grantor" if self._grantor.leads else "standby"

    @property
    def leader_url(self) -> str | None:
        if self._grantor.leads:
            return url_of(self._member)
        leader = None if self._forwarder is None else self._forwarder.leader
        return None if leader is None else url_of(leader)

    # Showing

    def view(self) -> ClusterView:
        """As far as this server knows by itself."""
        promised, url, leader = self._grantor.guarantees, url_of(self._member), self.leader_url
        others: dict[str, float | None] = {each: self._age_s(each) for each in self._remembered()}
        if leader is not None and leader != url:
            others.setdefault(leader, None)
        members = [ClusterMemberView(url, self.role, 0.0)]
        members += [
            ClusterMemberView(each, "grantor" if each == leader else "standby", age) for each, age in others.items()
        ]
        return ClusterView(
            url=url,
            role=self.role,
            leader=leader,
            term=self._grantor.newest_term,
            leader_ttl_seconds=self._leader_ttl_s,
            engine=EngineView(
                self._scheme, promised.durable, promised.survives_node_loss, shared=not promised.exclusive_open
            ),
            members=sorted(members, key=lambda each: (each.role, each.url)),
        )

    async def view_of_leader(self, headers: Mapping[bytes, bytes]) -> ClusterView:
        """With the members that the leader knows, if it answers whoever asks us."""
        own = self.view()
        if self._forwarder is None or BY in headers or own.leader in (None, own.url):
            return own
        shown = {name: headers[name] for name in SHOWN_AGAIN if name in headers}
        try:
            answer = await self._forwarder.ask("GET", f"{API}/cluster", within_s=ANSWER_S_MAX, headers=shown)
            told = msgspec.json.decode(bytes(answer.body), type=ClusterView)
        except (OSError, Unanswered, msgspec.MsgspecError):
            return own
        return msgspec.structs.replace(own, members=told.members)

    # Hearing

    def hear(self, headers: Mapping[bytes, bytes]) -> None:
        """Somebody looks whether we are ready: if it is one of us, it is alive."""
        by = headers.get(BY)
        if by is None or headers.get(TO) != self._member.encode() or not MEMBER.fullmatch(by):
            return
        url = url_of(by.decode("ascii"))
        self._remembered()
        if url in self._heard_s or len(self._heard_s) < MEMBERS_MAX:
            self._heard_s[url] = self._clock_s()

    def _remembered(self) -> list[str]:
        """Those of whom it is not too long ago."""
        self._heard_s = {url: at for url, at in self._heard_s.items() if self._clock_s() - at < FORGET_S}
        return list(self._heard_s)

    def _age_s(self, url: str) -> float:
        return round(self._clock_s() - self._heard_s[url], 3)

    # Looking

    async def _look_forever(self, forwarder: Forwarder) -> None:
        leader, due_s = None, 0.0
        while True:
            await asyncio.sleep(NOTICE_S)
            if forwarder.leader is None or (forwarder.leader == leader and self._clock_s() < due_s):
                continue
            leader = forwarder.leader
            due_s = self._clock_s() + LOOK_S + SPREAD.uniform(-LOOK_SPREAD_S, LOOK_SPREAD_S)
            await self._look(forwarder, url_of(leader))

    async def _look(self, forwarder: Forwarder, url: str) -> None:
        try:
            await forwarder.ask("GET", "/readyz", within_s=ANSWER_S_MAX, headers={})
        except (OSError, Unanswered) as failure:
            log.debug("leader not heard of url=%s error=%s", url, failure)
        else:
            self._heard_s = {url: self._clock_s()}
