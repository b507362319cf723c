"""Acquire and release, as fast as it goes, against us and against others, in one interleaved run.

Machines are noisy: read the ratios, not the numbers. `OPENINTENT_PUBLIC_VENV` names a virtual environment with the
public package `openintent[server]`, if that is to be measured too.
"""

import argparse
import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

import peers
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

HERE = Path(__file__).parent
LEASELOAD = HERE / "build" / "leaseload"


def build() -> None:
    LEASELOAD.parent.mkdir(exist_ok=True)
    subprocess.run(["cc", "-O2", "-o", str(LEASELOAD), str(HERE / "leaseload.c")], check=True)


def measure(name: str, options: argparse.Namespace) -> dict[str, Any] | None:
    with peers.running(name) as started:
        if started is None:
            return None
        peer, port = started
        command = [str(LEASELOAD), peer.target, options.workload, "--port", str(port), "--conns", str(options.conns)]
        command += ["--seconds", str(options.seconds), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not done.stdout:
            raise SystemExit(f"{peer.name}: {done.stderr.strip()}")
        return {"name": peer.name, **json.loads(done.stdout)}


def run(options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in options.peers}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring", total=options.rounds * len(options.peers))
        for _ in range(options.rounds):
            for name in options.peers:
                progress.update(task, description=f"measuring {name}")
                found = measure(name, options)
                if found is not None:
                    results[name].append(found)
                progress.advance(task)
    return results


def median(rows: list[dict[str, Any]], field: str) -> float:
    return statistics.median(row[field] for row in rows)


def show(results: dict[str, list[dict[str, Any]]], options: argparse.Namespace) -> None:
    table = Table(title=f"{options.workload}, {options.conns} connections, median of {options.rounds}")
    for heading in ("server", "cycles/s", "p50 ms", "p99 ms", "errors", "ours is"):
        table.add_column(heading, justify="left" if heading == "server" else "right")
    reference = median(results["ours"], "cycles_per_s") if results.get("ours") else 0.0
    for name, rows in results.items():
        if not rows:
            table.add_row(name, "not installed", "", "", "", "")
            continue
        cycles = median(rows, "cycles_per_s")
        p50, p99 = median(rows, "p50_us") / 1_000, median(rows, "p99_us") / 1_000
        errors = sum(row["errors"] for row in rows)
        ratio = f"{reference / cycles:.1f}x" if cycles else "-"
        table.add_row(rows[0]["name"], f"{cycles:,.0f}", f"{p50:.2f}", f"{p99:.2f}", str(errors), ratio)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default="cycle", choices=["cycle", "renew", "contend", "get"])
    parser.add_argument("--conns", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", nargs="+", default=list(peers.ALL), choices=list(peers.ALL))
    parser.add_argument("--json", metavar="FILE", help="also write every single result to this file")
    options = parser.parse_args()
    build()
    results = run(options)
    show(results, options)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
