"""One server per test, in a process and a folder of its own, and connections that do not outlive the test."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from rawhttp import Connect, Connection
from serverprocess import ServerProcess


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}  # the load must not be slower than what it loads


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path / "leases.db")
    try:
        process.start()
        yield process
    finally:
        process.kill()


@pytest.fixture
async def connect(server: ServerProcess) -> AsyncIterator[Connect]:
    """Opens a new connection for the agent of that name."""
    opened: list[Connection] = []

    def open_one(agent: str) -> Connection:
        opened.append(Connection(server.port, agent))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests made of one function, an operation each, have names of their own: else xdist takes them for one."""
    operation = getattr(item, "operation_label", None)
    if operation is not None:
        item._id = item.id.with_params(operation)
