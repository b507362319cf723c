"""One server per test, in a process and a folder of its own, and connections that do not outlive the test."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from everyengine import server_on
from failover_engines import ENGINES, RealEngine, real_engine_running
from proving import size
from rawhttp import Connect, Connection
from servercluster import Cluster, running
from serverprocess import ServerProcess
from servers import Servers


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}  # the load must not be slower than what it loads


@pytest.fixture(scope="session")
def fresh_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The URL of a place where nothing is yet, on one server of that engine for all tests of a process."""
    servers = Servers(tmp_path_factory.mktemp("servers"))
    yield servers.fresh_url
    servers.close()


@pytest.fixture
def engine(request: pytest.FixtureRequest, tmp_path: Path, fresh_place: Callable[[str], str]) -> str:
    """SQLite, if a test is not marked for others too (see everyengine.py)."""
    name = getattr(request, "param", "sqlite")
    here = {"sqlite": f"sqlite:///{tmp_path}/leases.db", "memory": "memory:"}
    return here.get(name) or fresh_place(name)


@pytest.fixture
def server(engine: str, tmp_path: Path) -> Iterator[ServerProcess]:
    process = server_on(engine, tmp_path / "leases.db")
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


@pytest.fixture(scope="session", params=list(ENGINES)[: size("failover_engines", 1)])
def real_engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealEngine]:
    """With what may go wrong with it; for several servers."""
    with real_engine_running(request.param, tmp_path_factory.mktemp(request.param)) as engine:
        yield engine


@pytest.fixture
async def cluster(real_engine: RealEngine, tmp_path: Path) -> AsyncIterator[Cluster]:
    """Three servers on a place of their own."""
    async with running(tmp_path, real_engine.fresh_url()) as cluster:
        yield cluster


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests made of one function, an operation each, have names of their own: else xdist takes them for one."""
    operation = getattr(item, "operation_label", None)
    if operation is not None:
        item._id = item.id.with_params(operation)
