"""Change the product blindly, one place at a time, and see whether the tests notice: a measure of the tests.

    python proof/blind/blind.py                 every change: about half an hour on two idle cores
    python proof/blind/blind.py --sample 300    so many, chosen by --seed

The last line of the output is for programs: the numbers, and every change that nobody noticed, with the reason why
that is no loss if we have one (`excused.toml`). Exit code 1 if fewer than nine of ten were noticed.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from verdicts import KINDS, Change, judged, share_noticed, table
from workbench import PARTS, Bench

SHARE_MIN: Final = 0.9
PROGRESS: Final = "PROOF_PROGRESS"  # the file that says how far we are (tests/proving.py)


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="blind-") as made:
        folder = options.folder or Path(made)
        benches = [Bench(part, folder) for part in PARTS]
        if not options.again:
            _try(benches, options.sample, options.seed)
        changes = [change for bench in benches for change in _judge(bench, slower=options.slower)]
    _show(changes)
    whole = table(changes)[-1][1]
    left = {change.key: change.why or "not explained" for change in changes if change.verdict == "survived"}
    numbers = {kind: whole[kind] for kind in KINDS}
    counted = {"changes": len(changes), **numbers, "share": round(share_noticed(whole), 4), "seed": options.seed}
    sys.stdout.write(json.dumps({**counted, "left": left}) + "\n")
    return 0 if share_noticed(whole) >= SHARE_MIN else 1


def _try(benches: list[Bench], sample: int, seed: int) -> None:
    for bench in benches:
        bench.prepare()
    known = sum(len(bench.exits()) for bench in benches)
    share = sample / known if 0 < sample < known else 1.0

    def look() -> None:
        with contextlib.suppress(ValueError):  # a file that is just being written
            tried = sum(code is not None for bench in benches for code in bench.exits().values())
            if PROGRESS in os.environ:
                Path(os.environ[PROGRESS]).write_text(f"{tried} {round(share * known)}", encoding="utf-8")

    for bench in benches:
        bench.run(bench.sample(share, seed) if share < 1 else [], look)


def _judge(bench: Bench, *, slower: bool) -> list[Change]:
    """What the quick tests missed, and nobody has explained, the slower ones are asked about."""
    changes = judged(bench.folder, bench.exits())
    if not slower:
        return changes
    return [
        replace(change, verdict="killed")
        if change.verdict == "survived" and not change.why and bench.noticed_by_slower_tests(change.name)
        else change
        for change in changes
    ]


def _show(changes: list[Change]) -> None:
    console = Console(width=160)
    shown = Table("file", "changes", *KINDS, "noticed")
    for name, row in table(changes):
        numbers = [row.total(), *(row[kind] for kind in KINDS)]
        shown.add_row(name, *map(str, numbers), f"{share_noticed(row):.1%}")
    console.print(shown)
    for change in changes:
        if change.verdict != "killed" and not change.why:
            console.print(
                f"{change.verdict} {change.where}\n  - {change.old}\n  + {change.new}", markup=False, highlight=False
            )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="how many changes to try; 0 is all of them")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--slower", action="store_true", help="ask slower tests about what is left and not explained")
    parser.add_argument("--folder", type=Path, help="where to work; it is kept")
    parser.add_argument("--again", action="store_true", help="try nothing; judge what is in the folder")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
