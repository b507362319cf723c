"""Where the peers come from: packages in the tests' cache, outside the repository, kept for the next run."""

import fcntl
import importlib
import os
import shutil
import subprocess
import sys
import venv
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

PUBLIC = "openintent[server]==0.17.0"
REDIS_PY = "redis==8.1.0"
INSTALL_S_MAX = 300.0


def cached(name: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "openintent-leases-tests" / f"{name}-py{sys.version_info.major}{sys.version_info.minor}"


def pip(python: Path | str, *arguments: str) -> None:
    """A package that cannot be had is no failure of ours: the test says so and is left out, but not in CI."""
    command = [str(python), "-m", "pip", "install", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S_MAX, check=False)
    if done.returncode != 0:
        assert "CI" not in os.environ, done.stderr
        pytest.skip(f"pip cannot install {arguments[-1]}: {done.stderr.strip()[-300:]}")


@cache
def public_programs() -> Path:
    """Where the programs of the public package are, in an environment of its own: it has our import name."""
    home = cached(PUBLIC.replace("[", "-").replace("]==", "-"))
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_name(f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes, and one of them installs it
        if not (home / "complete").exists():
            venv.create(home, with_pip=True, clear=True)
            pip(home / "bin" / "python", PUBLIC)
            (home / "complete").touch()
    return home / "bin"


def public_server() -> Path:
    return public_programs() / "openintent-server"


def public_python() -> Path:
    """A Python that has the public package."""
    return public_programs() / "python"


def redis_py() -> ModuleType:
    """redis-py; it is plain Python without dependencies, so a folder on the path is enough."""
    home = cached(REDIS_PY.replace("==", "-py-"))
    if not (home / "complete").exists():
        pip(sys.executable, "--upgrade", "--target", str(home), REDIS_PY)
        (home / "complete").touch()
    if str(home) not in sys.path:
        sys.path.append(str(home))
    importlib.import_module("redis.asyncio")
    return importlib.import_module("redis")


def debian_program(name: str, package: str) -> str:
    """A program that the machine must have; in CI it has."""
    path = shutil.which(name)
    if path is None:
        assert "CI" not in os.environ, f"CI needs the Debian package {package}"
        pytest.skip(f"{name} is not installed (Debian package {package})")
    return path
