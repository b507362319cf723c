"""A wall clock that can be set while a server runs: only CLOCK_REALTIME moves, and only for that server."""

import struct
import subprocess
from pathlib import Path

from peerinstall import debian_program

SOURCE = Path(__file__).with_name("peerclock.c")


class WallClock:
    def __init__(self, folder: Path) -> None:
        self._library = folder / "wallclock.so"
        self._step = folder / "wallclock.step"
        compiler = debian_program("gcc", "gcc")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", self._library, SOURCE], check=True, timeout=60)
        self.set(0)

    @property
    def wrapper(self) -> list[str]:
        """What goes before a server's command."""
        return ["env", f"LD_PRELOAD={self._library}", f"WALL_STEP={self._step}"]

    def set(self, step_s: int) -> None:
        """From now on the wall clock is so many seconds off. Written in place: the server has the file mapped."""
        with self._step.open("r+b" if self._step.exists() else "wb") as file:
            file.write(struct.pack("@l", step_s))
