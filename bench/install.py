"""Where the others come from: Debian packages, and virtual environments of their own in bench/build.

What cannot be had is left out by name, never silently.
"""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable
from pathlib import Path

BUILD = Path(__file__).parent / "build"
REDIS_PY = "redis==8.1.0"
KAZOO = "kazoo==2.10.0"
PUBLIC = "openintent[server]==0.17.0"
# A package may start its service when it is installed; in this runlevel Debian does not.
QUIETLY = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}


def packages(wanted: Iterable[str]) -> None:
    """Install Debian packages, where that is possible."""
    names = sorted(set(wanted))
    if not names or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    env = os.environ | QUIETLY
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *names]
    if subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=False).returncode != 0:
        subprocess.run(["apt-get", "update", "-qq"], env=env, stdout=subprocess.DEVNULL, check=False)
        subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=False)


def environment(name: str, *requirements: str) -> Path | None:
    """A virtual environment with these packages, made once for each Python; None if pip cannot get them."""
    home = BUILD / f"{name}-py{sys.version_info.major}{sys.version_info.minor}"
    done, what = home / "complete", "\n".join([sys.version, *requirements])
    if done.exists() and done.read_text(encoding="utf-8") == what:
        return home
    venv.create(home, with_pip=True, clear=True)
    command = [str(home / "bin" / "python"), "-m", "pip", "install", "-qq", *requirements]
    if subprocess.run(command, check=False).returncode != 0:
        return None
    done.write_text(what, encoding="utf-8")
    return home


def clients() -> Path | None:
    """The Python of an environment with redis-py and kazoo."""
    home = environment("clients", REDIS_PY, KAZOO)
    return home / "bin" / "python" if home else None


def public() -> Path | None:
    """The environment of the public package, which has our import name and so must be apart."""
    given = os.environ.get("OPENINTENT_PUBLIC_VENV")
    return Path(given) if given else environment("public", PUBLIC)
