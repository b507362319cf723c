"""A copy of the package in which bugs are planted, one at a time, and looked for."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

import guard
from mutant import Check, Edit, Mutant, Picked, Sim
from proving import size

TESTS: Final = Path(__file__).resolve().parent.parent
ROOT: Final = TESTS.parent
PACKAGE: Final = ROOT / "src" / "openintent"

SIMULATOR: Final = TESTS / "sim" / "simulate.py"

HISTORIES_MAX: Final = size("mutant_histories", 200)  # until the simulator is said to have missed it
TEST_S_MAX: Final = 30  # a bug that makes a test hang is found by that
CHECK_S_MAX: Final = 300.0  # for all of them; this is no finding, but a machine that has no time for us


@dataclass(frozen=True, slots=True)
class Found:
    """Who found the bug, by what, and after how long."""

    layer: str
    by: str
    histories: int
    seconds: float


class Workshop:
    """For one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._found = folder / "found"
        shutil.copytree(PACKAGE, folder / "openintent")

    @contextmanager
    def planted(self, edits: Sequence[Edit]) -> Iterator[None]:
        """While this lasts, the copy has the bug."""
        names = {edit.file for edit in edits}
        healthy = {name: (PACKAGE / name).read_text(encoding="utf-8") for name in names}
        ill = dict(healthy)
        for edit in edits:
            ill[edit.file] = edit.applied(ill[edit.file])
        try:
            self._write(ill)
            yield
        finally:
            self._write(healthy)

    def _write(self, texts: dict[str, str]) -> None:
        for name, text in texts.items():
            path = self.folder / "openintent" / name
            path.write_text(text, encoding="utf-8")
            # Python goes by size and by date in seconds: what it has compiled before could pass for this.
            Path(cache_from_source(str(path))).unlink(missing_ok=True)

    def hunt(self, mutant: Mutant) -> Found | None:
        """The first check that finds the bug; None if none does."""
        began = time.perf_counter()
        with self.planted(mutant.edits):
            for check in mutant.checks:
                by, histories = self._asked(check)
                if by:
                    return Found(check.layer, by, histories, time.perf_counter() - began)
        return None

    def _asked(self, check: Check) -> tuple[str, int]:
        return self.simulated(check, HISTORIES_MAX) if isinstance(check, Sim) else (self.tested([check]), 0)

    def simulated(self, check: Sim, count: int) -> tuple[str, int]:
        """What the simulator found to be wrong, if anything, and in which history."""
        options = ["--first", "0", "--count", str(count), "--until-violation", "--json", "--processes", "1"]
        options += ["--servers", str(check.servers)]
        done = self._run(TESTS / "mutants" / "guard.py", SIMULATOR, *options)
        if done.returncode == 0:
            return "", count
        try:
            told = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            # A bug may bring the simulator itself down. That the healthy package does not is seen in the same run.
            return _last_line(done.stderr), 0
        if told["seed"] is None:
            return "it cannot be decided whether a history is right", count
        return told["violation"], told["seed"] + 1

    def tested(self, checks: Sequence[Picked]) -> str:
        """The first test that failed, if any."""
        self._found.unlink(missing_ok=True)
        names = dict.fromkeys(name for check in checks for name in check.names)
        options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "-p", "guard", f"--timeout={TEST_S_MAX}"]
        done = self._run("-m", "pytest", *options, *names)
        if done.returncode == 0:
            return ""
        if self._found.exists():
            return self._found.read_text(encoding="utf-8")
        return _last_line(done.stdout)

    def _run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        paths = [self.folder, TESTS / "mutants", SIMULATOR.parent, TESTS]
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PROOF_", "COV_"))}
        env |= {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            guard.PACKAGE: str(self.folder),
            guard.FOUND: str(self._found),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.folder / "hypothesis"),  # what fails here is no news for others
        }
        words = (sys.executable, *map(str, words))
        with subprocess.Popen(
            words,
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                stdout, stderr = process.communicate(timeout=CHECK_S_MAX)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)  # with the servers that the tests have started
                raise
        return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no word")
