"""Run all that is to be proved and write down what came out: `make proof`, or `make proof LONG=1` for the full sizes.

Each part is a run of pytest on its own. Parts can be run one by one: docs/proof.md keeps what it has of the others. A
part that fails is named there, and makes the whole fail.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from outcome import Outcome
from parts import PARTS, Part
from report import written
from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn

ROOT = Path(__file__).resolve().parent.parent
TAIL_LINES = 40  # of the output of a part that failed


def main() -> int:
    options = _options()
    console = Console()
    chosen = [part for part in PARTS if not options.only or part.name in options.only]
    outcomes = []
    with Progress(*Progress.get_default_columns(), TimeElapsedColumn(), console=console) as shown:
        whole = shown.add_task("all", total=len(chosen))
        for part in chosen:
            outcomes.append(run(part, shown, long=options.long))
            shown.advance(whole)
            console.print(f"{part.name}: {outcomes[-1].summary}", highlight=False)
    for outcome in outcomes:
        if not outcome.holds:
            console.print(outcome.output, markup=False, highlight=False)
    target = ROOT / "docs" / "proof.md"
    before = target.read_text(encoding="utf-8") if target.exists() else ""
    target.write_text(written([part.name for part in PARTS], outcomes, before), encoding="utf-8")
    console.print(f"written: {target.relative_to(ROOT)}")
    failed = [outcome.name for outcome in outcomes if not outcome.holds]
    console.print(f"failed: {', '.join(failed)}" if failed else "all of it holds")
    return 1 if failed else 0


def run(part: Part, shown: Progress, *, long: bool) -> Outcome:
    sizes = {f"PROOF_{name.upper()}": str(value) for name, value in part.sizes(long=long).items()}
    command = ["pytest", "-q", *part.tests]
    outcome = Outcome(part.name, shlex.join([*(f"{name}={value}" for name, value in sizes.items()), *command]))
    with tempfile.TemporaryDirectory() as folder:
        figures, progress, output = (Path(folder, name) for name in ("figures", "progress", "output"))
        figures.touch()
        env = os.environ | sizes | {"PROOF_FIGURES": str(figures), "PROOF_PROGRESS": str(progress)}
        began = time.monotonic()
        with (
            output.open("w", encoding="utf-8") as sink,
            subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, env=env, stdout=sink, stderr=sink) as process,
        ):
            outcome.code = _watch(process, progress, part.name, shown)
        outcome.seconds = time.monotonic() - began
        lines = output.read_text(encoding="utf-8").splitlines()
        outcome.figures = [json.loads(line) for line in figures.read_text(encoding="utf-8").splitlines()]
    outcome.summary = lines[-1].strip("= ") if lines else ""
    outcome.output = "\n".join(lines[-TAIL_LINES:])
    return outcome


def _watch(process: "subprocess.Popen[bytes]", progress: Path, name: str, shown: Progress) -> int:
    """Wait for it, and show meanwhile how far it says that it is."""
    task = shown.add_task(name, total=None)
    while True:
        try:
            code = process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            done, of = _progress(progress)
            shown.update(task, completed=done, total=of)
        else:
            shown.remove_task(task)
            return code


def _progress(file: Path) -> tuple[int, int | None]:
    try:
        done, of = file.read_text(encoding="utf-8").split()
        return int(done), int(of)
    except (OSError, ValueError):  # not begun, or just being written
        return 0, None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="the full sizes: about an hour on two cores")
    parser.add_argument(
        "--only",
        nargs="*",
        default=[],
        help="these parts; the others stay as they were",
        metavar="PART",
        choices=[part.name for part in PARTS],
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
