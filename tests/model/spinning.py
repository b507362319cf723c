"""Driving Spin: searching the model, and taking runs out of it."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

MODEL = Path(__file__).resolve().parents[2] / "model" / "lease.pml"
NEEDED = ("spin", "gcc")
SEARCH_S_MAX = 900  # at the largest size, on a busy machine


@dataclass(frozen=True)
class Found:
    """What a search found. Properties are named as in the model."""

    states: int
    transitions: int
    broken: frozenset[str]
    complete: bool  # every state that can be reached was looked at


def need_spin() -> None:
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing and "CI" in os.environ:
        pytest.fail(f"{' and '.join(missing)} must be installed in CI")
    if missing:
        pytest.skip(f"{' and '.join(missing)} is not installed; on Debian: apt install spin gcc")


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SEARCH_S_MAX, check=False, errors="replace"
    )
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def definitions(switches: tuple[str, ...], attempts: int) -> list[str]:
    return [f"-D{name}" for name in (*switches, f"ATTEMPTS={attempts}")]


def search(folder: Path, *switches: str, attempts: int, shortest: bool = False) -> Found:
    """Look at every state, or with `shortest` breadth first until something breaks, which leaves a trail.

    Runs that end where a property broke are no deadlocks (-E).
    """
    shutil.copy(MODEL, folder)
    run(folder, "spin", *definitions(switches, attempts), "-a", MODEL.name)
    order = ["-O0", "-DBFS"] if shortest else ["-O1"]  # a short search is over before a better compiler is
    run(folder, "gcc", *order, "-w", "-DSAFETY", "-DNOREDUCE", "-o", "pan", "pan.c")
    told = run(folder, "./pan", "-n", "-E", "-w22", "-m1000000")
    assert "max search depth too small" not in told
    return Found(
        states=_number(r"(\d+) states, stored", told),
        transitions=_number(r"(\d+) transitions", told),
        broken=frozenset(re.findall(r"assertion violated (\w+)", told)),
        complete="Search not completed" not in told,
    )


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found is not None, text
    return int(found[1])


def shortest_run(folder: Path, *switches: str, attempts: int) -> list[str]:
    """The steps of the run that the last search with `shortest` found."""
    return _steps(run(folder, "spin", *definitions(switches, attempts), "-t", "-T", MODEL.name))


def random_run(folder: Path, *kinder: str, attempts: int, seed: int, statements: int) -> list[str]:
    """Steps of the healthy model, as chance has it. Spin counts statements and stops within a step: it is left off."""
    shutil.copy(MODEL, folder)
    told = run(folder, "spin", *definitions(kinder, attempts), f"-n{seed}", f"-u{statements}", "-T", MODEL.name)
    return _steps(told.partition("-------------")[0])[:-1]


def _steps(told: str) -> list[str]:
    """What the model printed, and nothing that Spin adds: steps begin with a verb, and the last state ends them."""
    printed = told.partition("#processes:")[0]
    return [line.strip() for line in printed.splitlines() if line.strip().partition(" ")[0].rstrip(":") in VERBS]


VERBS = frozenset(re.findall(r'printf\("([a-z_]+)', MODEL.read_text(encoding="utf-8")))
