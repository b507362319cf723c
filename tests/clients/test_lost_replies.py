"""A reply gets lost on its way. What was asked happens once all the same."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pytest
from samples import AGENT, seen_now

from openintent import LeaseLost, OpenIntentClient, OutcomeUnknown
from openintent.client.holder import Holder

pytestmark = pytest.mark.anyio


class Proxy(socketserver.ThreadingTCPServer):
    """Passes every request on, and then forgets to pass on as many of the replies as it was told."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        parts = urlsplit(target)
        self.target = (parts.hostname, parts.port)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.to_lose = 0
        self.lost = 0


class _Passing(socketserver.BaseRequestHandler):
    server: Proxy

    def handle(self) -> None:
        with socket.create_connection(self.server.target) as onward, suppress(OSError):
            threading.Thread(target=self._pass_on, args=(onward,), daemon=True).start()
            while reply := onward.recv(65_536):
                if self.server.lost < self.server.to_lose:
                    self.server.lost += 1
                    return
                self.request.sendall(reply)

    def _pass_on(self, onward: socket.socket) -> None:
        with suppress(OSError):
            while request := self.request.recv(65_536):
                onward.sendall(request)
            onward.shutdown(socket.SHUT_WR)


@contextmanager
def passing(target: str) -> Iterator[Proxy]:
    with Proxy(target) as proxy:
        threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield proxy
        finally:
            proxy.shutdown()


@pytest.fixture
def server_url(http_url) -> str:
    """What comes between the two is a matter of HTTP alone."""
    return http_url


@pytest.fixture
def proxy(http_url) -> Iterator[Proxy]:
    with passing(http_url) as made:
        yield made


@pytest.fixture
def intent(rival: OpenIntentClient):
    return rival.create_intent("Plan a trip")


async def test_an_acquire_grants_one_lease(make_client, proxy, rival, intent):
    client = make_client(base_url=proxy.url)
    proxy.to_lose = 2
    lease = await client.acquire_lease(intent.id, "a")
    assert proxy.lost == 2
    assert [(found.id, found.token) for found in rival.get_leases(intent.id)] == [(lease.id, lease.token)]
    assert len(rival.get_events(intent.id, types=["lease_acquired"])) == 1


async def test_a_patch_is_applied_once(make_client, proxy, rival, intent):
    client = make_client(base_url=proxy.url)
    await client.patch_state(intent.id, {"log": []})
    proxy.to_lose = 1
    await client.patch_state(intent.id, [{"op": "append", "path": "log", "value": "once"}])
    assert proxy.lost == 1
    assert rival.get_intent(intent.id).state == {"log": ["once"]}


async def test_an_intent_is_created_once(make_client, proxy, rival):
    client = make_client(base_url=proxy.url)
    proxy.to_lose = 1
    made = await client.create_intent(f"Plan of {client.agent_id}")
    titles = [found.title for found in rival.list_intents(limit=1_000)]
    assert titles.count(made.title) == 1


async def test_a_release_is_given_once(make_client, proxy, rival, intent):
    client = make_client(base_url=proxy.url)
    lease = await client.acquire_lease(intent.id, "a")
    proxy.to_lose = 1
    assert (await client.release_lease(lease)).status == "released"
    assert rival.get_leases(intent.id) == []


async def test_many_acquires_grant_each_lease_once(make_client, proxy, rival, intent):
    client = make_client(base_url=proxy.url)
    proxy.to_lose = 2
    leases = await client.acquire_leases(intent.id, ["a", "b", "c"])
    assert proxy.lost == 2
    assert [(found.id, found.token) for found in rival.get_leases(intent.id)] == [
        (each.id, each.token) for each in leases
    ]
    assert len(rival.get_events(intent.id, types=["lease_acquired"])) == 3
    proxy.to_lose = 3
    assert await client.release_leases(leases) == [None] * 3
    assert rival.get_leases(intent.id) == []


async def test_a_wait_goes_on_where_it_was(make_client, proxy, rival, intent):
    """The reply that says who got it is lost; the same attempt asks again and gets the same lease."""
    client = make_client(base_url=proxy.url)
    proxy.to_lose = 1
    lease = await client.acquire_lease(intent.id, "a", wait_seconds=5)
    assert [found.token for found in rival.get_leases(intent.id)] == [lease.token]


async def test_what_cannot_be_repeated_is_left_to_the_caller(make_client, proxy, rival, intent):
    client = make_client(base_url=proxy.url)
    lease = rival.acquire_lease(intent.id, "a")
    proxy.to_lose = 1
    with pytest.raises(OutcomeUnknown):
        await client.revoke_lease(lease.id, "maintenance")
    assert rival.get_lease(lease.id).status == "revoked"


def test_a_late_renewal_of_a_lease_that_was_given_back_revives_nothing():
    """Nobody has kept the object: what is known of it is that it was given back."""
    holder = Holder(["http://localhost:1"], None, AGENT, timeout_s=1.0)
    assert holder.renewed(seen_now(60, "L1")).remaining_seconds > 0
    holder.end_trust("L1")
    with pytest.raises(LeaseLost, match="released"):
        holder.renewed(seen_now(60, "L1"))
