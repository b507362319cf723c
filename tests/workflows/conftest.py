"""A real server in a process of its own, which the tests of this folder share."""

import os
import re
from collections.abc import Iterator

import pytest
from serverprocess import ServerProcess


@pytest.fixture(scope="session")
def server_url(tmp_path_factory) -> Iterator[str]:
    server = ServerProcess(tmp_path_factory.mktemp("workflows") / "leases.db")
    try:
        server.start()
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.kill()


@pytest.fixture
def run_id(request) -> str:
    """A run of the test's own."""
    return f"{re.sub(r'[^a-z0-9]+', '-', request.node.name)[:40]}-{os.urandom(3).hex()}"
