"""Work under a lease stops before the lease could be another's, whatever happens to the server or the link."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator

import pytest
from everyengine import on_every_engine
from faultproxy import FaultProxy
from proving import size
from serverprocess import ServerProcess

from openintent import AsyncOpenIntentClient, OpenIntentClient
from openintent.client.lease import Lease, hold_of
from openintent.clock import boot_s
from openintent.exceptions import ConflictError, LeaseLost

pytestmark = [pytest.mark.anyio, pytest.mark.alone, on_every_engine]

TTL_S = 0.6
FREEZES = size("freezes", 2)
CUTS = size("cuts", 1)
LEASES_PER_FREEZE = 5
LEASES_PER_CUT = 10


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def url(server: ServerProcess) -> str:
    return f"http://127.0.0.1:{server.port}"


@pytest.fixture
async def proxy(server: ServerProcess) -> AsyncIterator[FaultProxy]:
    proxy = FaultProxy(server.port)
    yield proxy
    await proxy.stop()


async def work_until_stopped(client: AsyncOpenIntentClient, scope: str, started: asyncio.Event) -> tuple[float, float]:
    """Work under a lease until it is lost: when the work was stopped, and until when it would have been trusted."""
    lease: Lease | None = None
    with pytest.raises(LeaseLost) as lost:
        async with client.lease(space="s", scope=scope, ttl=TTL_S) as lease:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped_at = boot_s()
    assert lost.value.reason == "trust_ended"
    assert lease is not None
    return stopped_at, hold_of(lease).trusted_until


@pytest.mark.timeout(60 + 10 * FREEZES)
@pytest.mark.slow
async def test_work_under_a_frozen_server_is_cancelled_before_the_lease_could_be_granted_again(server, url, figures):
    spare_s = []
    for freeze in range(FREEZES):
        async with AsyncOpenIntentClient(url, agent_id=f"worker-{freeze}") as client:
            started = [asyncio.Event() for _ in range(LEASES_PER_FREEZE)]
            works = [
                asyncio.create_task(work_until_stopped(client, f"{freeze}-{number}", event))
                for number, event in enumerate(started)
            ]
            await asyncio.gather(*(event.wait() for event in started))
            server.signal(signal.SIGSTOP)
            try:
                spare_s += [trusted_until - stopped_at for stopped_at, trusted_until in await asyncio.gather(*works)]
            finally:
                server.signal(signal.SIGCONT)
        assert min(spare_s) > 0
        figures.progress(freeze + 1, FREEZES)
    assert len(spare_s) == FREEZES * LEASES_PER_FREEZE
    figures.add(
        "work stopped under a frozen server",
        engine=server.engine_name,
        leases=len(spare_s),
        too_late=0,
        least_spare_ms=round(min(spare_s) * 1_000),
    )


@pytest.mark.timeout(60 + 10 * CUTS)
@pytest.mark.slow
async def test_work_that_is_cut_off_has_stopped_when_the_next_one_is_granted(server, url, proxy, figures):
    cut_off_url = await proxy.start()
    spare_s = []
    for cut in range(CUTS):
        async with (
            AsyncOpenIntentClient(cut_off_url, agent_id="cut-off") as cut_off,
            AsyncOpenIntentClient(url, agent_id="next") as successor,
        ):
            spare_s += await spared_by_a_cut(
                proxy, cut_off, successor, [f"cut-{cut}-{n}" for n in range(LEASES_PER_CUT)]
            )
        assert min(spare_s) > 0
        proxy.heal()
        figures.progress(cut + 1, CUTS)
    figures.add(
        "work stopped behind a cut link",
        engine=server.engine_name,
        leases=len(spare_s),
        too_late=0,
        least_spare_ms=round(min(spare_s) * 1_000),
    )


async def spared_by_a_cut(
    proxy: FaultProxy, cut_off: AsyncOpenIntentClient, successor: AsyncOpenIntentClient, scopes: list[str]
) -> list[float]:
    """For each scope, how long the work had stopped when the next holder was told of its grant."""
    started = [asyncio.Event() for _ in scopes]
    works = [
        asyncio.create_task(work_until_stopped(cut_off, scope, event))
        for scope, event in zip(scopes, started, strict=True)
    ]
    await asyncio.gather(*(event.wait() for event in started))
    proxy.cut()

    async def take_over(scope: str) -> float:
        await successor.acquire_lease(space="s", scope=scope, ttl_seconds=5, wait_seconds=10)
        return boot_s()

    granted = await asyncio.gather(*map(take_over, scopes))
    stopped = [stopped_at for stopped_at, _ in await asyncio.gather(*works)]
    return [granted_at - stopped_at for stopped_at, granted_at in zip(stopped, granted, strict=True)]


async def test_an_event_loop_that_is_blocked_for_most_of_a_ttl_keeps_its_lease(url):
    async with (
        AsyncOpenIntentClient(url, agent_id="blocked") as client,
        AsyncOpenIntentClient(url, agent_id="other") as other,
        client.lease(space="s", scope="blocked", ttl=1.0) as lease,
    ):
        for _ in range(3):
            threading.Event().wait(0.9)  # nothing else runs on this loop meanwhile
            lease.check()
        with pytest.raises(ConflictError) as refused:
            await other.acquire_lease(space="s", scope="blocked")
        assert refused.value.current_holder == "blocked"


async def test_a_reply_that_comes_late_revives_nothing(proxy):
    async with AsyncOpenIntentClient(await proxy.start(), agent_id="late") as client:
        lease: Lease | None = None
        with pytest.raises(LeaseLost):
            async with client.lease(space="s", scope="late", ttl=TTL_S) as lease:
                proxy.hold_answers()
                await asyncio.Event().wait()
        proxy.let_answers_go()
        await client.list_leases()  # the answers that were held back have come by now, or come with this one
        assert lease is not None
        assert lease.lost.is_set()
        assert lease.remaining == 0.0
        with pytest.raises(LeaseLost):
            lease.check()


def lives_for_a_second(client: OpenIntentClient, ttl: float) -> bool:
    """Whether work under a lease of `ttl` is left in peace for a second."""
    try:
        with client.lease(space="s", scope="short", ttl=ttl) as lease:
            for _ in range(20):
                lease.lost.wait(0.05)
                lease.check()
    except LeaseLost:
        return False
    return True


async def test_a_lease_of_a_fifth_of_a_second_is_usable(url):
    with OpenIntentClient(url, agent_id="short") as client:
        # A shared machine stands still for that long now and then, and the work is stopped as it must be.
        assert any(lives_for_a_second(client, ttl=0.2) for _ in range(5))


def sees_the_loss_in_time(server: ServerProcess, url: str) -> bool:
    told = threading.Event()
    client = OpenIntentClient(url, agent_id="thread")
    block = client.lease(space="s", scope="thread", ttl=TTL_S, on_lost=lambda _: told.set())
    with client, pytest.raises(LeaseLost), block as lease:
        server.signal(signal.SIGSTOP)
        try:
            assert lease.lost.wait(5)
            in_time = boot_s() < hold_of(lease).trusted_until
            assert told.wait(1)
        finally:
            server.signal(signal.SIGCONT)
    return in_time


async def test_a_thread_sees_the_loss_in_time(server, url):
    # As above: a thread that the machine does not let run sees nothing.
    assert any(sees_the_loss_in_time(server, url) for _ in range(5))
