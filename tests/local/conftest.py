"""A file of the test's own, and programs that do not outlive the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import Company, company


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "leases.db"


@pytest.fixture
def programs() -> Iterator[Company]:
    with company() as found:
        yield found
