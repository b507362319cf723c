"""Many leases with few requests: each is what it would be by itself."""

import asyncio

import msgspec
import pytest
from samples import AGENT

from openintent import (
    AsyncOpenIntentClient,
    Lease,
    LeaseConflictError,
    NotFoundError,
    OpenIntentClient,
    OpenIntentError,
    ValidationError,
)
from openintent.client.calls import Call
from openintent.client.calls.batches import BATCH_MAX
from openintent.client.replies import Reply
from openintent.clock import boot_s

pytestmark = pytest.mark.anyio


@pytest.fixture
async def intent(client):
    return await client.create_intent("Plan a trip")


async def raised(promise) -> OpenIntentError:
    with pytest.raises(OpenIntentError) as caught:
        await promise
    return caught.value


async def test_each_scope_has_its_lease_in_the_order_of_the_scopes(client, intent):
    before = boot_s()
    leases = await client.acquire_leases(intent.id, ["c", "a", "b"], 30, purpose="all", metadata={"run": 1})
    assert [lease.scope for lease in leases] == ["c", "a", "b"]
    assert [lease.token for lease in leases] == sorted(lease.token for lease in leases)
    assert {(lease.purpose, lease.ttl_seconds, lease.metadata["run"]) for lease in leases} == {("all", 30.0, 1)}
    # Counted from when the request was sent: no lease is believed in for longer than it lives.
    assert all(0 < lease.remaining <= 30 - (boot_s() - before) + 0.1 for lease in leases)
    assert {lease.id for lease in await client.get_leases(intent.id)} == {lease.id for lease in leases}


async def test_a_refusal_is_what_acquire_lease_would_raise_and_hides_no_lease(client, rival, intent):
    rival.acquire_lease(intent.id, "held")
    first, held, wrong, last = await client.acquire_leases(intent.id, ["a", "held", "x\ny", "b"])
    assert isinstance(first, Lease)
    assert isinstance(last, Lease)
    for told, scope, kind in ((held, "held", LeaseConflictError), (wrong, "x\ny", ValidationError)):
        alone = await raised(client.acquire_lease(intent.id, scope))
        assert type(told) is type(alone) is kind
        assert (told.code, told.status_code) == (alone.code, alone.status_code)
    assert held.current_holder == "rival"


async def test_where_nothing_can_be_held_every_scope_is_told_so(client):
    told = await client.acquire_leases("none", ["a", "b"])
    assert [type(each) for each in told] == [NotFoundError, NotFoundError]


async def test_more_than_one_batch_holds_are_several(client):
    scopes = [f"s{n}" for n in range(BATCH_MAX + 10)]
    leases = await client.acquire_leases(space=f"many-{client.agent_id}", scopes=scopes)
    assert [lease.scope for lease in leases] == scopes
    assert await client.release_leases(leases) == [None] * len(scopes)
    assert await client.get_leases(space=f"many-{client.agent_id}") == []


async def test_all_of_them_are_listed_though_a_page_has_no_room_for_all(client):
    space = f"pages-{client.agent_id}"
    leases = await client.acquire_leases(space=space, scopes=[f"s{n}" for n in range(1_100)])
    assert [lease.id for lease in await client.get_leases(space=space)] == [lease.id for lease in leases]
    assert await client.release_leases(leases) == [None] * len(leases)


async def test_what_they_carry_may_be_more_than_one_request_can(client, intent):
    scopes = [f"s{n}" for n in range(100)]
    leases = await client.acquire_leases(intent.id, scopes, metadata={"text": "x" * 16_000})
    assert [lease.scope for lease in leases] == scopes


async def test_none_are_none(client, intent):
    assert await client.acquire_leases(intent.id, []) == []
    assert await client.release_leases([]) == []


async def test_a_text_is_no_list_of_scopes(client, intent):
    with pytest.raises(TypeError, match="list"):
        await client.acquire_leases(intent.id, "research")
    with pytest.raises(TypeError):
        await client.acquire_leases(intent.id, ["a"], wait_seconds=5)


async def test_the_same_lease_is_the_same_object_and_one_that_was_given_back_never_lives_again(client, intent):
    first = await client.acquire_lease(intent.id, "a")
    again, other = await client.acquire_leases(intent.id, ["a", "b"], reentrant=True)
    assert again is first
    assert await client.release_leases([first, other]) == [None, None]
    fresh = (await client.acquire_leases(intent.id, ["a"], reentrant=True))[0]
    assert fresh.token > other.token


async def test_each_release_is_what_release_lease_would_be(client, rival, intent):
    foreign = rival.acquire_lease(intent.id, "held")
    one, two = await client.acquire_leases(intent.id, ["a", "b"])
    told = await client.release_leases([one, foreign.id, two.id, one])
    assert [type(each) for each in told] == [type(None), NotFoundError, type(None), type(None)]
    assert not one.is_active
    assert not two.is_active
    assert [lease.id for lease in rival.get_leases(intent.id)] == [foreign.id]


# What travels


class Interrupted:
    """A transport in the middle of which the user presses Ctrl-C; or the task is cancelled."""

    def __init__(self, how: type[BaseException]) -> None:
        self.sent: list[Call] = []
        self.how = how

    def exchange(self, call: Call) -> Reply:
        self.sent.append(call)
        if call.path == "/batch":
            raise self.how
        return Reply(200, b"{}", 0.0)

    def close(self) -> None:
        pass


class Cancelled(Interrupted):
    async def exchange(self, call: Call) -> Reply:
        return super().exchange(call)

    async def close(self) -> None:
        pass


def given_up_under(sent: list[Call]) -> None:
    asked, *given_up = sent
    parts = msgspec.json.decode(msgspec.json.encode(asked.body))["requests"]
    attempts = [part["attempt"] for part in parts]
    assert len(set(attempts)) == 2
    assert [call.path for call in given_up] == [f"/intents/i1/leases?attempt={attempt}" for attempt in attempts]


async def test_an_interrupted_call_leaves_nothing_behind():
    transport = Interrupted(KeyboardInterrupt)
    with OpenIntentClient(agent_id=AGENT) as client:
        client._transport = transport
        with pytest.raises(KeyboardInterrupt):
            client.acquire_leases("i1", ["a", "b"])
    given_up_under(transport.sent)


async def test_a_cancelled_call_leaves_nothing_behind():
    transport = Cancelled(asyncio.CancelledError)
    async with AsyncOpenIntentClient(agent_id=AGENT) as client:
        client._transport = transport
        with pytest.raises(asyncio.CancelledError):
            await client.acquire_leases("i1", ["a", "b"])
    given_up_under(transport.sent)


async def test_trust_ends_before_the_release_is_sent(client, intent):
    leases = await client.acquire_leases(intent.id, ["a", "b"])
    inner = getattr(client, "_client", client)
    believed = []

    class Watched:
        def exchange(self, call: Call) -> Reply:
            believed.extend(lease.is_active for lease in leases)
            raise ValueError("seen enough")

        def close(self) -> None:
            pass

    transport, inner._transport = inner._transport, Watched()
    with pytest.raises(ValueError, match="enough"):
        await client.release_leases(leases)
    inner._transport = transport
    assert believed == [False, False]
