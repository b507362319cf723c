"""What all tests share: how hard Hypothesis searches, where asynchronous tests run, and which are slow as a whole."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("default", max_examples=120, stateful_step_count=40, deadline=None, print_blob=True)
settings.register_profile(
    "sim",
    max_examples=int(os.environ.get("SIM_EXAMPLES", "2000")),
    stateful_step_count=80,
    deadline=None,
    print_blob=True,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_addoption(parser):
    parser.addoption("--rewrite-traces", action="store_true", help="write the transcripts anew; then read the diff")


SLOW_FOLDERS = {"e2e", "local"}  # each test starts processes of its own


def pytest_collection_modifyitems(items):
    for item in items:
        if SLOW_FOLDERS.intersection(Path(item.path).relative_to(Path(__file__).parent).parts):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def anyio_backend():
    return "asyncio"
