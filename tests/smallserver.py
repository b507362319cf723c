"""A server in memory, as a process of its own, for the tests of the command line and of the clients."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


@contextmanager
def serving() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Its address, and the process for whoever wants to hurt it."""
    command = [sys.executable, "-m", "openintent.cli", "serve", "--port", "0", "--engine", "memory:"]
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
