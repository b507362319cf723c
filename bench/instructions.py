"""What each request of the hot path costs, by callgrind; unlike times, counts hardly change on a busy machine.

    python bench/instructions.py                 count, and compare with what is kept in bench/instructions.json
    python bench/instructions.py --keep          the same, and keep the new counts
    python bench/instructions.py --profile renew where the instructions of one operation go, by C function

Counted are instructions, and lines of memory that a small machine's second cache does not have: the processor waits
for each of these as long as for some hundred instructions (docs/decisions/0017).

Needs valgrind. The requests are those of `bench/hotpath.py`, which without callgrind shows processor time.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE / "build"
KEPT = HERE / "instructions.json"
ENGINES = ("sqlite", "memory")
TRIGGER = re.compile(r"^desc: Trigger: Client Request: (.+)$", re.MULTILINE)
EVENTS = re.compile(r"^events: (.+)$", re.MULTILINE)
TOTALS = re.compile(r"^totals: (.+)$", re.MULTILINE)
CACHES = ("--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=524288,8,64")
# What is counted, of callgrind's events.
COUNTED = {"instructions": ("Ir",), "lines": ("ILmr", "DLmr", "DLmw")}

Counts = dict[str, dict[str, dict[str, int]]]  # what -> engine -> operation -> how many a request


def build_marks() -> Path:
    BUILD.mkdir(exist_ok=True)
    library = BUILD / "marks.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(HERE / "marks.c")]
    if subprocess.run(command, check=False).returncode != 0:
        raise SystemExit("cannot build bench/marks.c: it needs a C compiler and valgrind's headers (Debian: valgrind)")
    return library


def watch(engine: str, library: Path) -> list[Path]:
    """Run the hot path under callgrind; a dump for each operation."""
    out = BUILD / f"callgrind.{engine}"
    for old in BUILD.glob(f"{out.name}*"):
        old.unlink()
    command = ["valgrind", "--tool=callgrind", "--quiet", "--instr-atstart=no", f"--callgrind-out-file={out}"]
    command += CACHES
    command += [sys.executable, str(HERE / "hotpath.py"), "--engine", engine, "--marks", str(library)]
    try:
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": "0"}, check=True)
    except FileNotFoundError:
        raise SystemExit("valgrind is not installed (Debian package valgrind)") from None
    return sorted(BUILD.glob(f"{out.name}.*"), key=lambda path: int(path.suffix[1:]))


def read_dump(text: str) -> tuple[str, dict[str, int]] | None:
    """The operation and the counts of one dump; None for what callgrind writes at the end of the program."""
    name, events, totals = TRIGGER.search(text), EVENTS.search(text), TOTALS.search(text)
    if not (name and events and totals):
        return None
    each = dict(zip(events[1].split(), map(int, totals[1].split()), strict=True))
    return name[1], {what: sum(each[event] for event in of) for what, of in COUNTED.items()}


def count(engine: str, library: Path, requests: int) -> dict[str, dict[str, int]]:
    """What is counted -> operation -> how many a request."""
    found = [read_dump(dump.read_text(encoding="utf-8")) for dump in watch(engine, library)]
    told = dict(filter(None, found))
    return {what: {name: round(counts[what] / requests) for name, counts in told.items()} for what in COUNTED}


def change(now: int, before: int | None) -> str:
    return "new" if not before else f"{(now - before) / before:+.1%}"


def show(counts: Counts, kept: Counts) -> None:
    for what, engines in counts.items():
        print(f"{what + ' a request':<26}{'engine':<10}{'now':>12}{'kept':>12}{'change':>10}")
        for engine, operations in engines.items():
            for name, now in operations.items():
                before = kept.get(what, {}).get(engine, {}).get(name)
                shown = f"{before:,}" if before else "-"
                print(f"{name:<26}{engine:<10}{now:>12,}{shown:>12}{change(now, before):>10}")


def profile(engine: str, operation: str) -> None:
    """The functions of the last count that took the most, of one operation."""
    for dump in BUILD.glob(f"callgrind.{engine}.*"):
        found = read_dump(dump.read_text(encoding="utf-8"))
        if found and found[0] == operation:
            subprocess.run(["callgrind_annotate", "--threshold=90", str(dump)], check=True)
            return
    raise SystemExit(f"no count of {operation!r} with {engine} in {BUILD}; count first")


def read_kept() -> Counts:
    kept: Counts = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--keep", action="store_true", help="make these counts the ones to compare with")
    parser.add_argument("--profile", metavar="OPERATION", help="show where the last count went, without counting anew")
    options = parser.parse_args()
    if options.profile:
        profile(options.engine[0], options.profile)
        return
    from hotpath import LINES, TURNS  # noqa: PLC0415  # it loads a server

    library = build_marks()
    counted = {engine: count(engine, library, LINES * TURNS) for engine in options.engine}
    counts = {what: {engine: each[what] for engine, each in counted.items()} for what in COUNTED}
    kept = read_kept()
    show(counts, kept)
    if options.keep:
        merged = {what: kept.get(what, {}) | counts[what] for what in COUNTED}
        KEPT.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
