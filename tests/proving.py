"""How big a test runs, and what it counted: the figures of docs/proof.md.

Every test that can be small or large takes its numbers from `size`; `make proof` sets them. What the test saw it gives
to the fixture `figures`; there too it says how far it is, so that whoever waits can see it.
"""

import json
import os
from pathlib import Path
from typing import Any

FIGURES = "PROOF_FIGURES"  # the file that figures are added to, one JSON object in a line
PROGRESS = "PROOF_PROGRESS"  # the file that says how far the running test is


def size(name: str, quick: int) -> int:
    """How many: `quick` in every run of the tests, or what the environment says, as PROOF_KILLS=1000 for `kills`."""
    return int(os.environ.get(f"PROOF_{name.upper()}", quick))


class Figures:
    """What one test counted."""

    def __init__(self, test: str) -> None:
        self._test = test

    def add(self, what: str, **counted: Any) -> None:
        """A line of the report: what was done, and what was seen. Values are numbers or short texts."""
        if FIGURES in os.environ:
            line = json.dumps({"test": self._test, "what": what, "counted": counted}, default=str)
            with Path(os.environ[FIGURES]).open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    def progress(self, done: int, of: int) -> None:
        if PROGRESS in os.environ:
            Path(os.environ[PROGRESS]).write_text(f"{done} {of}", encoding="utf-8")
