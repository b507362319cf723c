"""An engine on a server, asked as `openintent serve` would ask it: can it be used, and who leads."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from openintent.cli.show import seconds
from openintent.clock import boot_s
from openintent.engines import open_engine, without_secret
from openintent.engines.base import Guarantees, Head
from openintent.engines.journaled import JournaledEngine
from openintent.errors import EngineError

# A leader writes at least every third of its ttl, and every five seconds; and a little for the way.
BEATS_PER_TTL: Final = 3
BEAT_S_MAX: Final = 5.0
WAY_S: Final = 1.0
ASKED_S_MAX: Final = 20.0

ON_THIS_MACHINE: Final = ("memory", "sqlite")

UNREACHED: Final = "start it, or correct host and port in the URL; a firewall may stand between"
# By words in what an engine says when it refuses, or cannot be reached; the first that is found counts.
REMEDIES: Final = (
    (("needs the library",), "install it, as it says"),
    (("newer openintent",), "update openintent-leases"),
    (("oldest that serves", "upgrade it"), "upgrade that server"),
    (
        ("password", "authenticat", "wants a user", "auth failed", "NOAUTH", "NoAuth", "WRONGPASS", "role "),
        "correct the user and the password in the URL, or what that user may do there",
    ),
    (("standby", "replica:", "in a cluster, and"), "name the primary, or the node that has the keys"),
    (
        ("which loses commits", "may lose commits", "does not show its settings", "maxmemory-policy"),
        "change that on the server; durability=weak is for trials only",
    ),
    (("NOSPACE",), "compact and defragment it, then disarm the alarm: docs/engines/etcd.md"),
    (
        ("cannot be reached", "refused", "resolve", "translate host", "no answer", "timeout", "timed out", "gateway"),
        UNREACHED,
    ),
    (("another program", "without a head of ours"), "name another place in the URL: schema, prefix or path"),
)
OTHERWISE: Final = "docs/engines says what each engine needs"


@dataclass(frozen=True, slots=True)
class Served:
    """What was found at the other end."""

    place: str  # as it may be shown
    trouble: str | None = None
    remedy: str | None = None
    software: str = ""
    guarantees: Guarantees | None = None
    notice: str | None = None
    head: Head = field(default_factory=Head)
    moved: bool = False  # while we looked
    looked_s: float = 0.0

    @property
    def leader(self) -> str:
        return self.head.member.partition("#")[0] or "nobody"


def served_facts(url: str, *, leader_ttl_s: float) -> Served | None:
    """None if the engine is no server's."""
    scheme, mark, _ = url.partition(":")
    if not mark or scheme in ON_THIS_MACHINE:
        return None
    try:
        return asyncio.run(asyncio.wait_for(_ask(url, leader_ttl_s), ASKED_S_MAX + leader_ttl_s))
    except TimeoutError:
        return _in_trouble(url, "no answer came, for long", UNREACHED)
    except EngineError as failure:
        return _in_trouble(url, str(failure), remedy_for(str(failure)))
    except ValueError as wrong:
        return _in_trouble(url, str(wrong), "correct the URL of the engine")


def _in_trouble(url: str, trouble: str, remedy: str) -> Served:
    return Served(without_secret(url), trouble=trouble, remedy=remedy)


def remedy_for(trouble: str) -> str:
    found = (remedy for words, remedy in REMEDIES if any(word.lower() in trouble.lower() for word in words))
    return next(found, OTHERWISE)


async def _ask(url: str, leader_ttl_s: float) -> Served:
    engine = open_engine(url)
    assert isinstance(engine, JournaledEngine), type(engine)
    try:
        await engine.reopen()  # which finds out whether it can be written
        head = await engine.head()
        began = boot_s()
        newest = await _watch(engine, head, min(leader_ttl_s / BEATS_PER_TTL, BEAT_S_MAX) + WAY_S)
        return Served(
            without_secret(url),
            software=engine.software,
            guarantees=engine.guarantees,
            notice=engine.notice,
            head=newest,
            moved=newest != head,
            looked_s=boot_s() - began,
        )
    finally:
        await engine.close()


async def _watch(engine: JournaledEngine, head: Head, seconds_max: float) -> Head:
    """The next head, if one comes in this time. After a farewell nobody is there to write one."""
    if head.term == 0 or head.farewell:
        return head
    with suppress(TimeoutError):
        await asyncio.wait_for(engine.changed(head), seconds_max)
    return await engine.head()


def promised(served: Served) -> str:
    guarantees = served.guarantees
    if guarantees is None or not guarantees.durable:
        return "a crash may lose commits"
    loss = "and the loss of a machine" if guarantees.survives_node_loss else "not the loss of its machine"
    return f"commits survive a crash, {loss}"


def reign(served: Served) -> str:
    """Who leads, in words."""
    head = served.head
    if head.term == 0:
        return "nobody has led yet; it is empty"
    since = f"{head.token:,} is the newest token, {head.seq:,} the newest event"
    if head.farewell:
        return f"nobody leads; {served.leader} said farewell in term {head.term}; {since}"
    if served.moved:
        return f"{served.leader} leads, in term {head.term}; {since}"
    stood = seconds(served.looked_s)
    return f"{served.leader} led last, in term {head.term}, and has written nothing for {stood}; {since}"
