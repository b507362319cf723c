"""A wall clock that can be set while programs run: only CLOCK_REALTIME moves, and only for those programs."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("wallclock.c")


class WallClock:
    def __init__(self, folder: Path) -> None:
        library, self._step = folder / "wallclock.so", folder / "wallclock.step"
        if shutil.which("gcc") is None:
            missing = pytest.fail if "CI" in os.environ else pytest.skip
            missing("gcc is not installed")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True, timeout=60)
        self.wrapper = ["env", f"LD_PRELOAD={library}", f"WALL_STEP={self._step}"]  # what goes before a command
        self.set(0)

    def set(self, step_s: int) -> None:
        """From now on the wall clock is so many seconds off. Written in place: the programs have the file mapped."""
        self.step_s = step_s
        with self._step.open("r+b" if self._step.exists() else "wb") as file:
            file.write(struct.pack("@l", step_s))
