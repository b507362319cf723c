"""The real server as a process of its own, and a client that speaks to it over either lane."""

import itertools

import pytest
from http_words import Api, running_server
from lane_words import House

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server_url():
    with running_server() as url:
        yield url


@pytest.fixture(scope="module", params=["hot", "asgi"])
def api(request, server_url):
    api = Api(server_url, request.param)
    with api.http:
        yield api


@pytest.fixture
async def house():
    """The protocol of connections, driven in process."""
    return House()


@pytest.fixture
async def line(house):
    return house.connect()


@pytest.fixture
def name():
    """A name that no other test uses."""
    return f"name-{next(_numbers)}"


@pytest.fixture
def space(name):
    """The path of a plain space that no other test uses."""
    return f"/spaces/{name}"


@pytest.fixture
def intent(api):
    """The path of an intent that no other test uses."""
    return f"/intents/{api.intent()}"
