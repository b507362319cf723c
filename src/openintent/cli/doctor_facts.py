"""What is the case on this machine, for the doctor to judge. Everything here asks the system, and nothing changes it.

A file of a few bytes is written beside the database, synced and deleted, to see how long that takes.
"""

import importlib.metadata
import os
import resource
import shutil
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openintent
from openintent.cli.doctor_disk import Database, database_facts
from openintent.cli.doctor_engine import Served, served_facts
from openintent.cli.doctor_net import Neighbour, ask, neighbour
from openintent.client.spelling import urls_of
from openintent.clock import boot_s
from openintent.server.keys import BadKeyFile, Key
from openintent.server.keys import load as load_keys
from openintent.server.settings import BadSettings, Settings, load
from openintent.version import __version__

PUBLIC = "openintent"  # the distribution of that name is another program with the same import name


@dataclass(frozen=True, slots=True)
class Package:
    folder: str  # from which `import openintent` came
    is_ours: bool = True
    version: str = __version__
    public: str | None = None  # its version, if the other program is installed as well
    public_folder: str | None = None
    command: str | None = None  # what `openintent` means to the shell
    scripts: str = ""  # where the commands of this Python are


@dataclass(frozen=True, slots=True)
class Clock:
    has_boot_clock: bool
    went_on: bool
    wall_s: float


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the checks look at. A new check adds what it needs here, and a line to `gather`."""

    python: tuple[int, int, int]
    optimized: bool  # without assertions
    plain: bool  # compiled without optimizations
    package: Package
    env: Mapping[str, str]
    settings: Settings
    faults: tuple[str, ...]  # of the settings; if there are any, `settings` are only what options say
    config: str | None
    clock: Clock
    files_max: int  # that a process may have open, if it asks for as many as it may; negative: any number
    here: Neighbour | None = None  # on the port that a server would take
    there: Sequence[Neighbour] = ()  # at the addresses that commands would ask, if any are named
    database: Database | None = None  # None if the engine keeps none
    served: Served | None = None  # None if the engine is on no server
    keys: Sequence[Key] | str | None = (
        None  # what is wrong with the key file, if it cannot be read; None: there is none
    )


def is_plain_build(told: Callable[[str], Any] = sysconfig.get_config_var) -> bool:
    """Whether this Python was compiled without the optimizations that those of distributions have."""
    # Debian does not compile by that argument; but what is compiled by Debian does not tell the flags for it, either.
    arguments = str(told("CONFIG_ARGS") or "")
    return bool(arguments and told("PGO_PROF_USE_FLAG")) and "--enable-optimizations" not in arguments


def gather(flags: Mapping[str, Any], *, config: str | None, env: Mapping[str, str] = os.environ) -> Facts:
    settings, faults = _settings(flags, config, env)
    return Facts(
        python=sys.version_info[:3],
        optimized=sys.flags.optimize > 0,
        plain=is_plain_build(),
        package=package_facts(),
        env=env,
        settings=settings,
        faults=faults,
        config=config or env.get("OPENINTENT_CONFIG"),
        clock=clock_facts(),
        files_max=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        here=neighbour(settings.host, settings.port) if settings.port else None,
        there=_there(env.get("OPENINTENT_URL")),
        database=database_facts(settings.engine),
        served=served_facts(settings.engine, leader_ttl_s=settings.leader_ttl_seconds),
        keys=_keys(settings.key_file),
    )


def _keys(file: Path | None) -> Sequence[Key] | str | None:
    try:
        return None if file is None else load_keys(file)
    except BadKeyFile as wrong:
        return str(wrong)


def _settings(flags: Mapping[str, Any], config: str | None, env: Mapping[str, str]) -> tuple[Settings, tuple[str, ...]]:
    """If they are wrong: what is wrong, and as much of them as the options of this command say."""
    try:
        return load(flags, config=config, env=env), ()
    except BadSettings as wrong:
        faults = tuple(str(wrong).splitlines())
    try:
        return load(flags, env={}), faults
    except BadSettings:
        return Settings(), faults


def _there(urls: str | None) -> Sequence[Neighbour]:
    if not urls or urls.startswith("sqlite:"):  # a file needs no server
        return ()
    return [ask(url) for url in urls_of(urls)]


def package_facts() -> Package:
    folder = Path(openintent.__file__).parent
    public, public_folder = _public()
    return Package(
        folder=str(folder),
        is_ours=openintent.__version__ == __version__ and (folder / "version.py").is_file(),
        public=public,
        public_folder=public_folder,
        command=shutil.which("openintent"),
        scripts=sysconfig.get_path("scripts"),
    )


def _public() -> tuple[str | None, str | None]:
    try:
        found = importlib.metadata.distribution(PUBLIC)
    except importlib.metadata.PackageNotFoundError:
        return None, None
    return found.version, str(found.locate_file("openintent"))


def clock_facts() -> Clock:
    before = boot_s()
    has_boot_clock = hasattr(time, "CLOCK_BOOTTIME") or sys.platform == "darwin"
    return Clock(has_boot_clock, boot_s() >= before, time.time())
