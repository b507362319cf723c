"""The command, with real processes, small."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BENCH = ROOT / "bench"

pytestmark = pytest.mark.slow


def needs(program, package):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed (Debian package {package})")


def test_the_quick_run_measures_us_and_writes_a_report(tmp_path):
    needs("cc", "gcc")
    command = [sys.executable, str(BENCH / "run.py"), "--quick", "--seconds", "0.3", "--only", "cycle", "renew"]
    done = subprocess.run(
        [*command, "--peers", "ours", "--out", str(tmp_path)], capture_output=True, text=True, check=False, timeout=50
    )
    assert done.returncode == 0, done.stderr
    kept = json.loads((tmp_path / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    rows = kept["outcomes"]["cycle"]["rows"] + kept["outcomes"]["renew"]["rows"]
    assert [row["size"] for row in rows] == ["1 connection", "32 connections", "1,000 held"]
    for row in rows:
        assert row["figures"]["errors"] == [0]
        assert row["figures"]["per_s"][0] > 10
        assert 0 < row["figures"]["server_cpu"][0] < 4
    assert "## Acquire and release" in (tmp_path / "benchmarks.md").read_text(encoding="utf-8")


def test_the_hot_path_answers_in_process():
    """What callgrind watches; without it, the time is shown."""
    done = subprocess.run(
        [sys.executable, str(BENCH / "hotpath.py"), "--engine", "memory"],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    told = [line.rsplit(maxsplit=8)[0] for line in done.stdout.splitlines()]
    assert len(told) == 6
    assert "us of processor time a request" in done.stdout
