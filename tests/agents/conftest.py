"""A real server for all, and for each test an agent's name of its own."""

import os
import re
from collections.abc import Iterator
from functools import partial

import pytest
from fleetwords import Stage, programs
from http_words import running_server

from openintent import AsyncOpenIntentClient
from openintent.agents import Agent


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    with running_server() as url:
        yield url


@pytest.fixture
def name(request) -> str:
    """They share a server."""
    test = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).removeprefix("test-")
    return f"{test[:60]}-{os.urandom(3).hex()}"


@pytest.fixture
async def stage(server_url, name, anyio_backend):
    async with AsyncOpenIntentClient(server_url, agent_id="boss") as boss:
        yield Stage(boss, name)


@pytest.fixture
async def start(server_url, anyio_backend):
    """Starts an agent as a process: `await start(name, lease_ttl=1)`."""
    async with programs(server_url) as starting:
        yield starting


@pytest.fixture
def agent(server_url, name):
    """`@Agent(...)` for the agent of this test."""
    return partial(Agent, name, base_url=server_url)
