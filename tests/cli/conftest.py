"""A real server, and the command line run as people run it: as a process of its own."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from commandline import OPENINTENT, CommandLine, Holding

from openintent import OpenIntentClient

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


@contextmanager
def serving() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [*OPENINTENT, "serve", "--port", "0", "--engine", "memory:"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield _address(process), process
        finally:
            process.kill()


def _address(process: subprocess.Popen[str]) -> str:
    said = []
    for line in process.stdout or ():
        said.append(line)
        found = ADDRESS.search(line)
        if found is not None:
            return found.group()
    raise AssertionError(f"the server did not start: {''.join(said)}")


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
