"""The server as the commands see it: each reply as it came, and each request sent once.

A program retries, because nobody is there to do it. At a command line somebody is, and would rather hear at once
that no server is running.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from openintent.client import calls, drivers, flows, replies, spelling
from openintent.client.calls import Call, Wish
from openintent.client.holder import new_attempt
from openintent.client.replies import Page, Reply
from openintent.client.transport import Addresses, HttpTransport, Identity
from openintent.errors import OutcomeUnknown

if TYPE_CHECKING:
    from openintent.client.following import Told
    from openintent.client.streams import Stream

ANSWER_S_MAX: Final = 10.0
PAGE: Final = 1_000

JSON = dict[str, Any]


def as_told(reply: Reply) -> Any:
    replies.refuse_refusals(reply)
    return msgspec.json.decode(reply.body)


def _page_as_told(reply: Reply) -> Page[JSON]:
    return Page(as_told(reply), reply.next_offset)


def _event_as_told(told: "Told") -> JSON:
    event: JSON = msgspec.json.decode(told.data)
    # The length of a queue is no event of the log, and comes without what they all have.
    return event if "event_type" in event else {"event_type": told.type, **event}


class Api:
    def __init__(self, url: str | None, api_key: str | None, agent: str) -> None:
        self._addresses = Addresses(spelling.urls_of(url))
        self.agent = spelling.agent_id_of(agent) or agent
        self.api_key = spelling.key_of(api_key)
        identity = Identity(self.agent, self.api_key)
        self._transport = HttpTransport(self._addresses, lambda: identity, timeout_s=ANSWER_S_MAX)

    @property
    def url(self) -> str:
        """All the addresses, as they are given on to others who ask the same servers."""
        return ",".join(self._addresses.urls)

    def ask(self, call: Call[Any], *, timeout_s: float = ANSWER_S_MAX) -> Any:
        return drivers.run(flows.send(replace(call, parse=as_told, timeout_s=timeout_s)), self._transport)

    def ask_patiently(self, call: Call[Any], *, patience_s: float) -> Any:
        """The same, but a server that is just being restarted is given the time for it."""
        return drivers.run(flows.patiently(replace(call, parse=as_told), patience_s=patience_s), self._transport)

    def acquire(self, wish: Wish) -> JSON:
        """Get a lease, or leave nothing behind."""
        attempt = new_attempt()
        try:
            if wish.wait_s > 0:
                seen = drivers.run(flows.acquire(wish, attempt=attempt, patience_s=ANSWER_S_MAX), self._transport)
                told: JSON = msgspec.to_builtins(seen.view)
                return told
            got: JSON = self.ask(calls.acquire(wish, attempt=attempt, wait_s=0.0))
        except (OutcomeUnknown, KeyboardInterrupt, SystemExit):
            drivers.run(flows.give_up(wish, attempt=attempt), self._transport)
            raise
        return got

    # Lists, with all their pages

    def leases(self, space: str | None, *, agent: str | None = None, status: str = "active") -> JSON:
        found: list[JSON] = []
        after: str | None = None
        while True:
            page = self.ask(calls.list_leases(agent_id=agent, space=space, status=status, after=after))
            found += page["leases"]
            after = page.get("next")
            if after is None:
                return {**page, "leases": found}

    def every(self, page_of: Callable[[str | None], Call[Any]]) -> list[JSON]:
        """All pages of a list that is bare."""
        found: list[JSON] = []
        at: str | None = None
        while True:
            call = replace(page_of(at), parse=_page_as_told, timeout_s=ANSWER_S_MAX)
            page = drivers.run(flows.send(call), self._transport)
            found += page.items
            at = page.next
            if at is None:
                return found

    def follow(self, space: str, *, after: int | None, types: list[str] | None) -> "Stream[JSON]":
        """The events of a log as they happen, as they were told."""
        from openintent.client.streams import Stream  # noqa: PLC0415  # only who listens pays for it

        following = spelling.following_of(space, after=after, types=types, on_gap="raise", patience_s=0.0)
        return Stream(following, self._transport, _event_as_told)

    def queue(self, space: str, *, scope: str | None = None) -> list[JSON]:
        waiters: list[JSON] = self.ask(calls.get_queue(space, scope=scope))["waiters"]
        return waiters

    def intents(self, status: str | None) -> JSON:
        pages = list(self._intent_pages(status))
        return {**pages[-1], "intents": [intent for page in pages for intent in page["intents"]]}

    def _intent_pages(self, status: str | None) -> Iterator[JSON]:
        offset = 0
        while True:
            page = self.ask(calls.list_intents(status=status, limit=PAGE, offset=offset))
            yield page
            if page.get("next") is None:
                return
            offset += PAGE
