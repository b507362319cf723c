import tempfile
from pathlib import Path

import pytest
from powerlife import small_bounds

MEMORY = Path("/dev/shm")  # noqa: S108  # only for speed: what a cut leaves is written there thousands of times


@pytest.fixture
def folder(tmp_path):
    """A folder in memory, if this machine has such a place."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as made:
        yield Path(made)


@pytest.fixture
def small():
    with small_bounds():
        yield
