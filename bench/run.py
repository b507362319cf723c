"""Measure everything, against others and by ourselves, and write docs/benchmarks.md: `make bench`.

    make bench ARGS="--quick"                     all at small sizes, in four minutes; writes to bench/build/quick
    make bench ARGS="--only cycle renew"          some workloads; the report keeps what it has of the others
    make bench ARGS="--only cycle --peers ours"   without the others
    make bench ARGS="--report"                    write the report anew from what was measured

Others are installed if they can be: Debian packages by apt-get as root, Python packages in bench/build. What is left
out is said. `OPENINTENT_PUBLIC_VENV` names an environment that has the public package already.
"""

import argparse
import shlex
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import load
import machine
import peers
import report
import results
from results import Outcome, Results
from rich.console import Console
from rich.progress import Progress, TaskID, TimeElapsedColumn
from suite import Bench, Workload
from workloads import ALL

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
QUICK_OUT = HERE / "build" / "quick"
ROUNDS, SECONDS = 3, 5.0
QUICK_ROUNDS, QUICK_SECONDS = 1, 1.0


def main() -> int:
    options = _options()
    console = Console(stderr=True)
    out = Path(options.out) if options.out else QUICK_OUT if options.quick else DOCS
    kept = results.read(out / report.FOLDER / "results.json")
    failed: list[str] = []
    if not options.report:
        load.build()
        failed = _measure(options, kept, out, console)
    console.print(f"written: {report.write(kept, out)}", highlight=False)
    return 1 if failed else 0


def _measure(options: argparse.Namespace, kept: Results, out: Path, console: Console) -> list[str]:
    """Run what was asked for. The names of those that could not be measured; the report keeps what it had of them."""
    offered, left_out = peers.offered(options.peers)
    for key, reason in left_out.items():
        console.print(f"left out: {peers.ALL[key].title}: {reason}", highlight=False)
    data = Path(options.data)
    kept.machine = machine.describe(data)
    kept.peers |= {key: _described(peer) for key, peer in offered.items()}
    failed = []
    with Progress(*Progress.get_default_columns(), TimeElapsedColumn(), console=console) as shown:
        whole = shown.add_task("all", total=len(options.only))
        for name in options.only:
            bench = _bench(options, offered, data)
            bench.notes += [f"left out: {peers.ALL[key].title}: {reason}" for key, reason in left_out.items()]
            try:
                kept.outcomes[name] = _run(ALL[name], bench, shown, options)
            except load.LoadFailed as failure:
                failed.append(name)
                console.print(f"{name} failed: {failure}", style="red", highlight=False)
            kept.write(out / report.FOLDER / "results.json")  # so that what comes next cannot lose it
            shown.advance(whole)
    return failed


def _bench(options: argparse.Namespace, offered: dict[str, peers.Peer], data: Path) -> Bench:
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    return Bench(offered, data, rounds, seconds, quick=options.quick, long=options.long)


def _run(workload: Workload, bench: Bench, shown: Progress, options: argparse.Namespace) -> Outcome:
    task: TaskID = shown.add_task(workload.name, total=None)
    bench.say = lambda said: shown.update(task, description=f"{workload.name}: {said}")
    began_s = time.monotonic()
    rows = workload.run(bench)
    took_s = round(time.monotonic() - began_s, 1)
    shown.update(task, total=1, completed=1, description=f"{workload.name}: done")
    day = datetime.now(UTC).date().isoformat()
    command, python = _command(workload.name, options), machine.python()
    how = (bench.rounds, bench.seconds, took_s, command, python)
    return Outcome(workload.name, day, *how, rows, bench.notes, machine.processor())


def _command(name: str, options: argparse.Namespace) -> str:
    words = ["--only", name]
    words += ["--quick"] * options.quick + ["--long"] * options.long
    words += ["--rounds", str(options.rounds)] if options.rounds else []
    words += ["--seconds", f"{options.seconds:g}"] if options.seconds else []
    return f'make bench ARGS="{shlex.join(words)}"'


def _described(peer: peers.Peer) -> dict[str, str]:
    return {"title": peer.title, "version": peer.version(), "settings": peer.settings}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(ALL), choices=list(ALL), metavar="NAME", help=", ".join(ALL))
    parser.add_argument("--peers", nargs="+", default=list(peers.ALL), choices=list(peers.ALL), metavar="PEER")
    parser.add_argument("--rounds", type=int, help=f"how often each is measured (default: {ROUNDS})")
    parser.add_argument("--seconds", type=float, help=f"the length of one measurement (default: {SECONDS:g})")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all works")
    parser.add_argument("--long", action="store_true", help="also the sizes that take a quarter of an hour each")
    parser.add_argument("--data", default=tempfile.gettempdir(), help="where servers keep their files: on a real disk")
    parser.add_argument("--out", help="the folder for benchmarks.md (default: docs)")
    parser.add_argument("--report", action="store_true", help="measure nothing; write the report anew")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
