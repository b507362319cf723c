"""ZooKeeper, a single member; the load comes from kazoo's `Lock`."""

from pathlib import Path

import install

from peers.base import Peer, Server, answers_to, needs

JAR = Path("/usr/share/java/zookeeper.jar")
CONFIG = """\
tickTime=1000
dataDir={folder}/data
clientPort={port}
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
"""


def prepare(server: Server) -> None:
    text = CONFIG.format(folder=server.folder, port=server.port)
    (server.folder / "zoo.cfg").write_text(text, encoding="utf-8")


def command(server: Server) -> list[str]:
    main = "org.apache.zookeeper.server.ZooKeeperServerMain"
    return ["java", "-Xmx2g", "-cp", str(JAR), main, f"{server.folder}/zoo.cfg"]


def missing() -> str | None:
    if not JAR.exists():
        return f"{JAR.name} is not installed (Debian package zookeeper)"
    if install.clients() is None:
        return f"pip cannot install {install.KAZOO}"
    return needs("java", "default-jre-headless")()


def version() -> str:
    return JAR.resolve().stem.removeprefix("zookeeper-") + f", {install.KAZOO.replace('==', ' ')}"


PEER = Peer(
    key="zookeeper",
    title="ZooKeeper, kazoo Lock",
    settings="one member, `tickTime` 1,000, syncs before it answers; heap 2 GB",
    command=command,
    ready=answers_to(b"srvr", b"Zookeeper version"),  # before it serves it says something else
    missing=missing,
    version=version,
    prepare=prepare,
    package="zookeeper",
)
