"""A command is known to its guardian before it begins: whoever holds its lease may be stopped right then."""

import os
import signal
from types import SimpleNamespace

from openintent.cli.running import Command, Times
from openintent.cli.signals import Signals
from openintent.clock import boot_s


class Listening:
    """Takes the place of the guardian: writes down whom it is told of, and by which process."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def watch(self, group: int, *, until: float, grace_s: float) -> None:
        os.write(self._fd, f"{os.getpid()} {group}\n".encode())


def test_a_command_is_known_to_its_guardian_before_it_begins():
    reader, writer = os.pipe()
    trust = SimpleNamespace(over=False, trusted_until=boot_s() + 60)
    with Signals([signal.SIGCHLD]) as signals:
        command = Command(
            ["true"],
            dict(os.environ),
            trust=trust,
            times=Times.of(60, None),
            guardian=Listening(writer),
            signals=signals,
        )
        command._start()
        os.waitpid(command._group, 0)
    os.close(writer)
    with os.fdopen(reader) as told:
        assert told.read().splitlines() == [f"{command._group} {command._group}"]
