"""The engines under test: those that need a server have one of their own, started from Debian's packages."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from daemon import own_folder
from engine_words import Opener, commit, opened
from faultproxy import FaultProxy
from posts import POSTS, Post
from remote_words import ON_SERVERS, by_way_of, port_of, proxy_to
from servers import Servers, required

from openintent.engines.base import Engine, Put


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    servers = Servers(tmp_path_factory.mktemp("servers"))
    yield servers
    servers.close()


@pytest.fixture(scope="module", params=["memory", "sqlite", "apart", *ON_SERVERS])
def kind(request: pytest.FixtureRequest) -> str:
    """Of the engine; `apart` is SQLite as servers have it. A file that is about one of them says which."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def installed(kind: str, servers: Servers) -> None:
    """For those that start a server of their own: they are skipped, too, where there is none."""
    required(kind)


@pytest.fixture(scope="module")
def certificate(kind: str, servers: Servers) -> Iterator[Path]:
    """A folder with that of the server, of its clients, and of who vouches for both: it is one and the same."""
    if shutil.which("openssl") is None and "CI" not in os.environ:
        pytest.skip(reason="openssl is not installed")
    with own_folder(required(kind).USERS) as folder:
        key, cert = folder / "key.pem", folder / "cert.pem"
        words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        words += ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
        subprocess.run(words, check=True, capture_output=True)
        (folder / "both.pem").write_bytes(key.read_bytes() + cert.read_bytes())
        for file in folder.iterdir():
            file.chmod(0o644)
        yield folder


@pytest.fixture
def url(kind: str, tmp_path: Path, servers: Servers) -> str:
    """Of a place where nothing is yet."""
    file = f"sqlite:///{tmp_path}/leases.db"
    here = {"memory": "memory:", "sqlite": file, "apart": file}
    return here.get(kind) or servers.fresh_url(kind)


@pytest.fixture
def server(kind: str, servers: Servers) -> Any:
    """For tests that need more of it than a place."""
    servers.fresh_url(kind)
    return required(kind).RUNNING[-1]


@pytest.fixture
def opener(kind: str, url: str) -> Opener:
    """Opens the engine anew each time, on the same storage if it has one."""
    return partial(opened, url, apart=kind == "apart")


@pytest.fixture
async def engine(opener: Opener) -> AsyncIterator[Engine]:
    async with opener() as engine:
        yield engine


@pytest.fixture
async def proxy(server: Any) -> AsyncIterator[FaultProxy]:
    async with proxy_to(server.port) as proxy:
        yield proxy


@pytest.fixture
async def far(url: str, proxy: FaultProxy) -> AsyncIterator[Engine]:
    """The same place as that of `engine`, over a line that can be cut; `far` writes there."""
    async with opened(by_way_of(url, port_of(proxy))) as engine:
        await commit(engine, Put("first", b""), term=1, member="far")
        yield engine


@pytest.fixture
async def post(kind: str, server: Any) -> AsyncIterator[Post]:
    post = POSTS[kind](server.port)
    yield post
    await post.stop()


@pytest.fixture
async def slow(url: str, post: Post) -> AsyncIterator[Engine]:
    """The same place as that of `engine`; what it sends may stay with the post."""
    async with opened(by_way_of(url, await post.start())) as engine:
        await commit(engine, Put("first", b""), term=1, member="slow")
        yield engine


@pytest.fixture(params=["sqlite", *ON_SERVERS])
def kept_url(request: pytest.FixtureRequest, tmp_path: Path, servers: Servers) -> str:
    """Of an engine that outlives its process, and has nothing yet."""
    return f"sqlite:///{tmp_path}/leases.db" if request.param == "sqlite" else servers.fresh_url(request.param)


@pytest.fixture(params=ON_SERVERS)
def served_url(request: pytest.FixtureRequest, servers: Servers) -> str:
    """The same, of one on a server."""
    return servers.fresh_url(request.param)
