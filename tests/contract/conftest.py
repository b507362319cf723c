"""The engines under test: those that need a server have one of their own, started from Debian's packages."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from engine_words import Opener

from openintent.engines import open_engine
from openintent.engines.base import Engine

# Each has a module `server_<name>.py` beside this one: `missing()` says what is not installed, and `running(folder)` is
# a context manager around a real server which gives a function that makes the URL of a place where nothing is yet.
ON_SERVERS = [
    name
    for name in ("postgres", "etcd", "redis", "zookeeper")
    if (Path(__file__).parent / f"server_{name}.py").exists()
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Servers:
    """One server of each kind for all tests of a process, started when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = ExitStack()
        self._places: dict[str, Callable[[], str]] = {}

    def fresh_url(self, name: str) -> str:
        if name not in self._places:
            module: Any = import_module(f"server_{name}")
            missing: str | None = module.missing()
            if missing is not None and "CI" not in os.environ:
                pytest.skip(reason=f"{missing} is not installed")
            running: AbstractContextManager[Callable[[], str]] = module.running(self._folder / name)
            self._places[name] = self._open.enter_context(running)
        return self._places[name]()

    def close(self) -> None:
        self._open.close()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("servers"))
    yield servers
    servers.close()


@pytest.fixture(params=["memory", "sqlite", *ON_SERVERS])
def opener(request: pytest.FixtureRequest, tmp_path: Path, servers: Servers) -> Opener:
    """Opens the engine anew each time, on the same storage if it has one."""
    here = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/leases.db"}
    url = here.get(request.param) or servers.fresh_url(request.param)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Engine]:
        engine = open_engine(url)
        try:
            yield engine
        finally:
            await engine.close()

    return opened


@pytest.fixture(params=["sqlite", *ON_SERVERS])
def kept_url(request: pytest.FixtureRequest, tmp_path: Path, servers: Servers) -> str:
    """Of an engine that outlives its process, and has nothing yet."""
    return f"sqlite:///{tmp_path}/leases.db" if request.param == "sqlite" else servers.fresh_url(request.param)


@pytest.fixture(params=ON_SERVERS)
def served_url(request: pytest.FixtureRequest, servers: Servers) -> str:
    """The same, of one on a server."""
    return servers.fresh_url(request.param)


@pytest.fixture
async def engine(opener: Opener) -> AsyncIterator[Engine]:
    async with opener() as engine:
        yield engine
