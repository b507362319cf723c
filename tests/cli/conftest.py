"""A real server, and the command line run as people run it: as a process of its own."""

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from commandline import CommandLine, Holding
from smallserver import serving

from openintent import OpenIntentClient


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    with serving() as (url, _):
        yield url


@pytest.fixture
def frozen_server() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server of the test's own, for it to hurt."""
    with serving() as found:
        yield found


@pytest.fixture
def cli(server_url) -> CommandLine:
    return CommandLine(server_url)


@pytest.fixture
def space(request) -> str:
    """A place of the test's own: they share a server."""
    return re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)


@pytest.fixture
def rival(server_url) -> Iterator[OpenIntentClient]:
    """Another agent, which is also the operator who revokes."""
    with OpenIntentClient(server_url, agent_id="rival") as client:
        yield client


@pytest.fixture
def holding(tmp_path) -> Iterator[Holding]:
    """Starts `hold` with a shell script that the test can hear, and leaves nothing of it behind."""
    found = Holding(tmp_path)
    try:
        yield found
    finally:
        found.clean_up()


assert sys.platform != "win32"  # the command line needs processes as POSIX has them
