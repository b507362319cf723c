"""Runs in the process that looks for a bug: is it the changed package that is looked at, and which test found it?

As a plugin of pytest (`-p guard`), and as a program that runs another one (`python guard.py program.py ...`).
"""

import os
import runpy
import sys
from pathlib import Path

PACKAGE = "MUTANT_PACKAGE"  # the folder that the package must come from
FOUND = "MUTANT_FOUND"  # the file that gets the name of the first test that failed


def require_changed_package() -> None:
    import openintent

    folder = Path(openintent.__file__ or "").parent.parent
    if folder != Path(os.environ[PACKAGE]):
        raise SystemExit(f"openintent comes from {folder}, not from {os.environ[PACKAGE]}")


def pytest_configure() -> None:
    require_changed_package()


def pytest_runtest_logreport(report) -> None:
    if report.failed and not Path(os.environ[FOUND]).exists():
        Path(os.environ[FOUND]).write_text(report.nodeid, encoding="utf-8")


def pytest_collectreport(report) -> None:
    pytest_runtest_logreport(report)


if __name__ == "__main__":
    require_changed_package()
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
