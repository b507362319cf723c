"""How the tests run the command line."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

OPENINTENT = [sys.executable, "-m", "openintent.cli"]


def environment(url: str | None = None, **more: str) -> dict[str, str]:
    """Ours, without what would tell the command line something."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OPENINTENT_")}
    return {**clean, **({"OPENINTENT_URL": url} if url else {}), **more}


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class CommandLine:
    url: str | None = None

    def __call__(self, *words: object, **env: str) -> Run:
        command = [*OPENINTENT, *map(str, words)]
        done = subprocess.run(
            command,
            env=environment(self.url, **env),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Run(done.returncode, done.stdout, done.stderr)


class Holding:
    """`hold` with a script for a shell. The script's output is a lifeline: it ends when the last of them is dead."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[str]] = []
        self.groups: list[int] = []
        self.lifelines: list[IO[str]] = []

    def start(self, url: str, *options: object, script: str) -> "Held":
        lifeline = self._folder / f"lifeline-{len(self._processes)}"
        os.mkfifo(lifeline)
        command = [*OPENINTENT, "hold", *map(str, options), "--", "sh", "-c", f'exec 9>"$LIFELINE"; {script}']
        process = subprocess.Popen(
            command,
            env=environment(url, LIFELINE=str(lifeline)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._processes.append(process)
        return Held(process, lifeline, self)

    def clean_up(self) -> None:
        for group in self.groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        for lifeline in self.lifelines:
            lifeline.close()
        for process in self._processes:
            with process:
                process.kill()


class Held:
    def __init__(self, process: subprocess.Popen[str], lifeline: Path, holding: Holding) -> None:
        self.process = process
        self._path = lifeline
        self._holding = holding

    def wait_running(self) -> list[str]:
        """The words of the first line that the script writes to descriptor 9, of which the first is its own pid."""
        self._lifeline = self._path.open()
        self._holding.lifelines.append(self._lifeline)
        words = self._lifeline.readline().split()
        self._holding.groups.append(int(words[0]))
        return words

    def wait_dead(self) -> str:
        """Until no process of the script has the lifeline any more; what was written to it."""
        return self._lifeline.read()

    def finish(self) -> Run:
        out, err = self.process.communicate()
        assert "Traceback" not in err, err
        return Run(self.process.returncode, out, err)
