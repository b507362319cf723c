"""Two programs share their work through a file: no server runs, and neither of them is in charge."""

import tempfile
from multiprocessing import Process
from pathlib import Path

import openintent


def work(path: Path, name: str) -> None:
    with (
        openintent.local(path, agent_id=name) as client,
        client.lease(space="site", scope="deploy", ttl=30, wait_seconds=30) as lease,
    ):
        print(f"{name} deploys with token {lease.token}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        programs = [Process(target=work, args=(Path(folder) / "leases.db", name)) for name in ("ada", "bob")]
        for program in programs:
            program.start()
        for program in programs:
            program.join()
