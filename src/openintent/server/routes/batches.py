"""Many requests in one: their client pays for HTTP once, and the ledger for one commit.

Promised: each part is carried out by the handler that it has by itself, after all that is checked before that, in the
order of the list and whatever becomes of the others. The answer leaves when the last part has its own, so nothing is
told before it is durable. Not promised: that all of them happen, or none.
"""

from operator import attrgetter
from typing import ClassVar, Final
from urllib.parse import unquote

import msgspec
from msgspec import UNSET

from openintent.grantor.grantor import NotServing
from openintent.model import Intent
from openintent.server import bodies, problems
from openintent.server.exchange import Exchange
from openintent.server.heads import Head
from openintent.server.routing import Match, Route, arguments, is_plain
from openintent.server.service import Service
from openintent.wire import BatchBody, BatchView, IntentView, PartBody, PartView

# Of the whole request: one attempt or version cannot be meant for all parts, each of which names its own.
NOT_SHARED: Final = frozenset({b"idempotency-key", b"if-match"})

INTENT_BYTES_MAX: Final = 4 * 1_024 * 1_024  # of all intents that one answer shows


class Part(Exchange, kw_only=True):
    """A request of a batch."""

    batch: "Batch"
    whole: ClassVar[bool] = False

    @property
    def address(self) -> str:
        return self.batch.exchange.address

    def write(self) -> None:
        self.batch.count()


class Batch:
    """Answers its exchange when the last part has been answered."""

    def __init__(self, service: Service, exchange: Exchange) -> None:
        self.exchange = exchange
        self._service = service
        self._unanswered = 0
        self._ready: list[Part] = []  # to be carried out, in their order
        self._intent_bytes = 0  # of those that the answers so far show, and the ready ones will at most
        self._shown_bytes = 0  # of the first
        self._put_bytes: dict[str, int] = {}  # into each intent by what is ready: all that is behind it shows that
        self._shared = {name: value for name, value in exchange.headers.items() if name not in NOT_SHARED}
        # Who asks, and what else the headers say, is found out by the first part for all of them.
        self.head = exchange.head or Head(self._shared, 0)

    def part(self, asked: PartBody) -> Part:
        """One more, to be carried out when all are made."""
        self._unanswered += 1
        headers = self._shared
        if asked.attempt is not None:
            headers = {**headers, b"idempotency-key": asked.attempt.encode()}
        if asked.if_match is not None:
            headers = {**headers, b"if-match": asked.if_match.encode()}
        body = b"" if asked.body is UNSET else bytes(asked.body)
        return Part(self._service, asked.method, asked.path, "", headers, body, batch=self)

    def add(self, part: Part) -> None:
        self._ready.append(part)

    def carry_out(self) -> list[Part]:
        ready, self._ready = self._ready, []
        if ready:
            self._service.dispatch_all(ready)
        return ready

    def has_room(self, part: Part, intent_id: str) -> bool:
        """For about as much of an intent as this part will show. Leases are small, but intents may have megabytes."""
        if self._counted(intent_id, put=len(part.body)):
            return True
        ready = self.carry_out()
        self._service.settle()  # now it is known how much they show, and what they made of the intent
        self._shown_bytes += sum(len(each.payload) for each in ready if _shows_intent(each))
        self._intent_bytes = self._shown_bytes
        self._put_bytes.clear()
        return self._counted(intent_id, put=len(part.body))

    def _counted(self, intent_id: str, *, put: int) -> bool:
        intent = self._service.grantor.books.intents.get(intent_id)
        put += self._put_bytes.get(intent_id, 0)
        size = put if intent is None else put + bytes_of(intent)
        if self._intent_bytes + size > INTENT_BYTES_MAX:
            return False
        self._intent_bytes += size
        self._put_bytes[intent_id] = put
        return True

    def count(self) -> None:
        self._unanswered -= 1
        if not self._unanswered:
            self._answer()

    def _answer(self) -> None:
        exchange = self.exchange
        parts, exchange.parts = exchange.parts, ()  # they know us: a circle would stay in memory for longer
        exchange.place = max((part.place for part in parts), key=attrgetter("term", "rev"))
        shown = BatchView([PartView(part.status, msgspec.Raw(part.payload)) for part in parts])
        exchange.conclude_at_once(200, self._service.encode(shown))


def send_batch(service: Service, exchange: Exchange) -> None:
    requests = bodies.decode(BatchBody, exchange.body).requests
    most = service.limits.requests_per_batch_max
    if not 1 <= len(requests) <= most:
        raise problems.invalid((["requests"], f"must have 1 to {most} items", "size"))
    if not service.grantor.leads:
        raise NotServing  # it is passed on as a whole, which no part is
    batch = Batch(service, exchange)
    exchange.parts = parts = [batch.part(asked) for asked in requests]
    for part in parts:
        if _fits(service, part):
            batch.add(part)
    batch.carry_out()


def _fits(service: Service, part: Part) -> bool:
    """Whether it can be part of a batch, as what is small and quick can; if not, it is answered here."""
    found = service.router.find(part.method, part.path)
    if "?" in part.path or "#" in part.path:
        refusal = problems.invalid((["path"], "must have no query", "value"))
    elif not isinstance(found, Match):
        return True  # it will be told that nothing is there, as it would be by itself
    elif not found.route.hot or found.route.view is BatchView:
        refusal = problems.not_offered("path", "this is not offered in a batch: send it by itself")
    elif found.route.view is IntentView and not part.batch.has_room(part, unquote(found.names[0])):
        refusal = problems.not_offered("path", "the intents of this batch are too large together: send it by itself")
    else:
        part.route, part.names = found.route, found.names
        if is_plain(part.path, chars_max=service.limits.name_chars_max):
            part.head, part.names = part.batch.head, arguments(found.route, found.names)
        return True
    part.conclude_at_once(refusal.status, problems.encode(refusal.problem))
    return False


def _shows_intent(part: Part) -> bool:
    return part.route is not None and part.route.view is IntentView


def bytes_of(intent: Intent) -> int:
    """About how much an answer that shows it has; what is not counted is small, whatever it is."""
    return intent.state_bytes + len(intent.description) + bodies.SLUG_CHARS_MAX * len(intent.depends_on)


ROUTES: Final = [
    Route(
        "POST",
        "batch",
        send_batch,
        "Send many requests in one",
        hot=True,
        body=BatchBody,
        view=BatchView,
        codes=("unavailable", "outcome_unknown"),
        name="send_batch",
    ),
]
