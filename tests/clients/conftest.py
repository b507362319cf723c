"""What the clients' tests talk to, a real server and a file without one; and one fixture for both clients."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest
from askers import LINES, Asker
from smallserver import serving

from openintent import AsyncOpenIntentClient, OpenIntentClient


@pytest.fixture(scope="session")
def http_url() -> Iterator[str]:
    with serving() as (url, _):
        yield url


@pytest.fixture(scope="session")
def file_url(tmp_path_factory) -> Iterator[str]:
    """A file that another program serves, as one that was there before us."""
    url = f"sqlite:///{tmp_path_factory.mktemp('local') / 'leases.db'}"
    code = f"import openintent; openintent.local({url!r}).list_intents(); print('ready', flush=True); input()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield url
        finally:
            process.kill()


@pytest.fixture(scope="session", params=["server", "file"])
def server_url(request) -> str:
    """Whatever a client can do, it can do in both ways."""
    return request.getfixturevalue({"server": "http_url", "file": "file_url"}[request.param])


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Awaited:
    """The sync client with methods to be awaited, so that one test can be written for both."""

    def __init__(self, client: OpenIntentClient) -> None:
        self._client = client

    def __getattr__(self, name: str):
        member = getattr(self._client, name)
        if not callable(member):
            return member

        async def method(*args, **kwargs):
            return await asyncio.to_thread(member, *args, **kwargs)

        return method


@pytest.fixture(params=["sync", "async"])
async def make_client(request, server_url, anyio_backend):
    """Makes clients of one kind, one agent each, and closes them."""
    made = []

    def make(base_url=server_url, **options):
        if request.param == "async":
            made.append(AsyncOpenIntentClient(base_url, **options))
        else:
            made.append(Awaited(OpenIntentClient(base_url, **options)))
        return made[-1]

    yield make
    for client in made:
        await client.close()


@pytest.fixture
def client(make_client):
    return make_client()


@pytest.fixture
def sync_client(server_url) -> Iterator[OpenIntentClient]:
    with OpenIntentClient(server_url) as client:
        yield client


@pytest.fixture
def rival(server_url) -> Iterator[OpenIntentClient]:
    """Another agent, which is also the operator who revokes."""
    with OpenIntentClient(server_url, agent_id="rival") as client:
        yield client


@pytest.fixture(params=sorted(LINES))
async def ask(request, anyio_backend):
    asker = Asker(LINES[request.param]())
    yield asker
    await asker.close(asker.line)


@pytest.fixture(params=["plain sync", "plain async"])
async def plain(request, anyio_backend):
    asker = Asker(LINES[request.param]())
    yield asker
    await asker.close(asker.line)
