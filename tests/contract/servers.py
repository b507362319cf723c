"""The real servers beneath engines, and what becomes of a test where one is not installed."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest


def required(name: str) -> Any:
    """The module of that server. Where it is not installed the test is skipped, but not in CI."""
    module: Any = import_module(f"server_{name}")
    missing: str | None = module.missing()
    if missing is not None and "CI" not in os.environ:
        pytest.skip(reason=f"{missing} is not installed")
    return module


class Servers:
    """One server of each kind for all tests of a process, started when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = ExitStack()
        self._places: dict[str, Callable[[], str]] = {}

    def fresh_url(self, name: str) -> str:
        """Of a place where nothing is yet."""
        if name not in self._places:
            running: AbstractContextManager[Callable[[], str]] = required(name).running(self._folder / name)
            self._places[name] = self._open.enter_context(running)
        return self._places[name]()

    def close(self) -> None:
        self._open.close()
