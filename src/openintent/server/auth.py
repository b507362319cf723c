"""Who may come in, and as whom.

With a key file, a request shows its key as `X-API-Key` or as `Authorization: Bearer`; see `keys`. Every good key may
read; it may act as the agents that it is bound to, and an operator's key may do everything.

Without one the server is in dev mode: it listens on loopback only, accepts any key or none, and every caller has
operator rights. What it does check then is that the caller is on this machine: a page in a browser that was tricked
into calling localhost (DNS rebinding, cross-site requests) is turned away by its Host or Origin. A page that does not
know a key needs no such check.
"""

import logging
import re
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final

from openintent.clock import boot_s
from openintent.server import problems
from openintent.server.exchange import Exchange
from openintent.server.keys import DEV, NOBODY, KeyRing, Principal

log = logging.getLogger("openintent.server")

FAILURES_MAX: Final = 20
FAILURES_S: Final = 10.0
ADDRESSES_MAX: Final = 1_024
OTHERS: Final = "others"  # all those for whom there is no place

UNKNOWN: Final = "Invalid or missing API key"
# What examples and tutorials use. None can be a key of ours; but who sends one should learn what is wrong.
DEV_KEYS: Final = frozenset(b"dev-user-key dev-agent-key dev-key dev test-key test your-api-key".split())
CHALLENGE: Final = b'www-authenticate: Bearer realm="openintent"\r\n'
# A name or an address, and perhaps a port. Whatever else a lenient reader would find a name in is no name.
HOST: Final = re.compile(rb"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{0,5})?")
ORIGIN: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://" + HOST.pattern)
AGENTS_SHOWN_MAX: Final = 10
NAME_SHOWN_MAX: Final = 200


def is_loopback(host: str) -> bool:
    """Whether this names this machine whatever any name server says: `127.example.org` does not."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Failures:
    """How often each address has shown a wrong key of late.

    The bound does not protect the keys, which nobody can guess: it slows down who tries, and keeps the log short. A
    good key is let in whatever its address, which a proxy or a network may share with who tries.
    """

    def __init__(self, most: int, clock_s: Callable[[], float] = boot_s) -> None:
        self._most = most
        self._clock_s = clock_s
        self._counts: dict[str, int] = {}
        self._end_s = 0.0

    def count(self, address: str) -> float | None:
        """One more. Above the bound: how many seconds to wait."""
        now_s = self._clock_s()
        if now_s >= self._end_s:
            self._counts.clear()
            self._end_s = now_s + FAILURES_S
        if address not in self._counts and len(self._counts) >= ADDRESSES_MAX:
            address = OTHERS
        count = self._counts[address] = self._counts.get(address, 0) + 1
        if count <= self._most:
            return None
        if count == self._most + 1:
            log.warning("wrong keys slowed down client=%s count=%d", address, count)
        return self._end_s - now_s


class Gate:
    """Lets a request in and says who it is, or raises `Refused`."""

    def __init__(self, ring: KeyRing | None = None, *, failures_max: int = FAILURES_MAX) -> None:
        self.ring = ring
        self._failures = Failures(failures_max)
        self._known_hosts: set[bytes] = set()  # Host values that were found to be fine

    def start(self) -> None:
        if self.ring is not None:
            self.ring.start()

    def stop(self) -> None:
        if self.ring is not None:
            self.ring.stop()

    @property
    def edition(self) -> object:
        """The same as long as the same are let in: who was, as the head of a request says, need not be checked."""
        return DEV if self.ring is None else self.ring.edition

    def check(self, exchange: Exchange) -> None:
        head, exchange.principal = exchange.head, NOBODY
        self._let_in(exchange, self.ring)
        if head is not None and exchange.principal is not NOBODY:
            head.principal, head.edition = exchange.principal, self.edition

    def _let_in(self, exchange: Exchange, ring: KeyRing | None) -> None:
        if ring is None or not ring.in_force:
            self._check_machine(exchange.headers)
            exchange.principal = DEV
            return
        headers = exchange.headers
        shown, bearer = headers.get(b"x-api-key"), headers.get(b"authorization")
        if bearer is not None:
            shown = _one_key(shown, bearer)
        principal = ring.find(shown) if shown else None
        if principal is not None:
            exchange.principal = principal
        elif exchange.route is None or not exchange.route.open:
            raise self._refusal(exchange, ring, shown)

    def stands(self, principal: Principal) -> bool:
        """Whether it would still be let in: for what goes on long after its request."""
        ring = self.ring
        return principal is DEV if ring is None or not ring.in_force else ring.stands(principal)

    # Keys

    def _refusal(self, exchange: Exchange, ring: KeyRing, shown: bytes | None) -> problems.Refused:
        if not shown:
            return _unknown("send it as X-API-Key, or as Authorization: Bearer; `openintent keys add NAME` makes one")
        state = ring.end_of(shown)
        if state is not None:  # its bearer guesses nothing, and is to learn that trying again is of no use
            return _unknown(f"this key {_ENDED[state]}; `openintent keys add NAME` makes another")
        wait_s = self._failures.count(exchange.address)
        if wait_s is not None:
            return _too_many(wait_s)
        if shown in DEV_KEYS:
            return _unknown("this is the key of an example; this server knows those made with `openintent keys add`")
        return _unknown("this server knows no such key; `openintent keys` lists those that it knows")

    # This machine

    def _check_machine(self, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host")
        if host is not None and host not in self._known_hosts:
            self._check_host(host)
        origin = headers.get(b"origin")
        if origin is not None and not _from_this_machine(ORIGIN, origin):
            raise _forbidden("Origin refused: this page is not from this machine")

    def _check_host(self, host: bytes) -> None:
        if not _from_this_machine(HOST, host):
            why = "without configured keys only this machine is served, by its loopback names"
            raise _forbidden(f"Host refused: {why}")
        if len(self._known_hosts) < 64:
            self._known_hosts.add(host)


_ENDED: Final = {"expired": "has expired", "revoked": "was revoked", "active": "is good"}


def _one_key(shown: bytes | None, authorization: bytes) -> bytes | None:
    """The key that both headers mean. Other schemes may be for a proxy: they are none of our business."""
    scheme, _, bearer = authorization.partition(b" ")
    if scheme.lower() != b"bearer":
        return shown
    bearer = bearer.strip()
    if shown and shown != bearer:
        raise _unknown("X-API-Key and Authorization show two keys: send one of them")
    return bearer


def _unknown(hint: str) -> problems.Refused:
    return problems.Refused(401, problems.plain("unauthenticated", UNKNOWN, hint=hint), extra=CHALLENGE)


def _too_many(wait_s: float) -> problems.Refused:
    hint = "a good key is let in at any time"
    message = "too many wrong keys from this address"
    problem = problems.plain("limit_reached", message, hint=hint, retry_after_seconds=wait_s)
    return problems.Refused(429, problem, extra=problems.retry_after(wait_s))


def _forbidden(message: str, hint: str | None = None) -> problems.Refused:
    return problems.Refused(403, problems.plain("forbidden", message, hint=hint))


def not_operator() -> problems.Refused:
    return _forbidden(
        "only an operator's key may do this", "`openintent keys add NAME --operator` makes one, on the server's machine"
    )


def not_that_agent(principal: Principal, agent: str) -> problems.Refused:
    return _forbidden(
        f"this key may not act as {agent[:NAME_SHOWN_MAX]!r}", f"it may act as {_shown_agents(principal)}"
    )


def agent_missing(principal: Principal) -> problems.Refused:
    """A key that is bound to agents never acts without a name."""
    hint = f"say which agent is asking; this key may act as {_shown_agents(principal)}"
    return problems.Refused(400, problems.plain("agent_required", "X-Agent-ID header required", hint=hint))


def _shown_agents(principal: Principal) -> str:
    shown = principal.agents[:AGENTS_SHOWN_MAX]
    more = len(principal.agents) - len(shown)
    return (", ".join(shown) or "nobody") + (f" and {more} more" if more else "")


def _from_this_machine(form: re.Pattern[bytes], value: bytes) -> bool:
    found = form.fullmatch(value)
    return found is not None and is_loopback(found["name"].decode("ascii").strip("[]").lower())
