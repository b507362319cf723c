"""The machine, described without naming it, and what the kernel says of a process."""

import os
import platform
import sqlite3
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile

from openintent.cli.doctor_facts import is_plain_build

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SYNCS = 200
SYNC_BYTES = 4_096


def describe(data: Path) -> dict[str, str]:
    """`data`: where the servers keep their files."""
    memory_gb = os.sysconf("SC_PHYS_PAGES") * PAGE / 2**30
    return {
        "processor": processor(),
        "memory": f"{memory_gb:.0f} GB",
        "system": f"{_system()}, Linux {platform.release().split('-')[0]}",
        "disk": f"{_file_system(data)}; fdatasync of 4 KB takes {sync_ms(data):.2f} ms (median of {SYNCS})",
        "SQLite": _sqlite(),
        "network": "loopback; load and servers share the processors",
    }


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} x {names[0] if names else platform.machine()}"


def _system() -> str:
    facts = platform.freedesktop_os_release()
    return facts.get("PRETTY_NAME", "Linux")


def python() -> str:
    return f"{platform.python_version()} ({'not ' if is_plain_build() else ''}optimized)"


def _sqlite() -> str:
    try:
        import apsw  # noqa: PLC0415  # only where it is installed
    except ImportError:
        return sqlite3.sqlite_version
    return str(apsw.sqlite_lib_version())


def _file_system(folder: Path) -> str:
    """The kind that the mount nearest to the folder has."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    above = [mount for mount in mounts if folder.resolve().is_relative_to(mount[1])]
    return max(above, key=lambda mount: len(mount[1]))[2] if above else "unknown"


def sync_ms(folder: Path) -> float:
    with NamedTemporaryFile(dir=folder) as file:
        file.write(bytes(SYNC_BYTES * SYNCS))
        file.flush()
        os.fsync(file.fileno())
        return 1_000 * statistics.median(_sync_s(file.fileno(), place) for place in range(SYNCS))


def _sync_s(file: int, place: int) -> float:
    os.pwrite(file, b"x" * SYNC_BYTES, place * SYNC_BYTES)
    began_s = time.perf_counter()
    os.fdatasync(file)
    return time.perf_counter() - began_s


# Processes


def family(pid: int) -> Iterator[int]:
    """A process and all that come from it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        found = _stat(int(entry.name))
        if found:
            parents.setdefault(int(found[1]), []).append(int(entry.name))
    due = [pid]
    while due:
        each = due.pop()
        yield each
        due += parents.get(each, [])


def _stat(pid: int) -> list[str]:
    """What follows the name in its line of the kernel; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []


def processor_s(pid: int) -> float:
    """Processor time of a process and its children, also of those that have ended."""
    return sum(sum(map(int, found[11:15])) for each in family(pid) if (found := _stat(each))) / TICKS


def resident_bytes(pid: int) -> int:
    return sum(int(found[21]) * PAGE for each in family(pid) if (found := _stat(each)))
