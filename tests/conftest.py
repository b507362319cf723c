"""What all tests share: how hard Hypothesis searches, where asynchronous tests run, and which are slow as a whole."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings
from proving import Figures, size

# Our programs are started a thousand times; compiling them is half of a start, and some machines say not to keep it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What runs in the background, or under nohup, ignores these, and so would all programs that it starts.
for ignored in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(ignored, signal.default_int_handler if ignored == signal.SIGINT else signal.SIG_DFL)

settings.register_profile(
    "ours",
    max_examples=size("examples", 120),
    stateful_step_count=size("example_steps", 40),
    deadline=None,
    print_blob=True,
)
settings.load_profile("ours")


def pytest_addoption(parser):
    parser.addoption("--rewrite-traces", action="store_true", help="write the transcripts anew; then read the diff")


SLOW_FOLDERS = {"e2e", "local", "peers"}  # each test starts processes of its own
SERVERS = ("etcd", "postgres", "redis", "zookeeper")  # as they stand in the names of tests that need one


@pytest.hookimpl(tryfirst=True)  # pytest then puts together what shares a fixture
def pytest_collection_modifyitems(items):
    slow, all_ = Counter(), Counter()
    for item in items:
        folders = set(Path(item.path).relative_to(Path(__file__).parent).parts)
        if SLOW_FOLDERS & folders or ("contract" in folders and any(name in item.nodeid for name in SERVERS)):
            item.add_marker(pytest.mark.slow)
        slow[item.path] += item.get_closest_marker("slow") is not None
        all_[item.path] += 1
    # Files that take long begin first, so that in the end no worker waits for the one that has drawn them last.
    items.sort(key=lambda item: (slow[item.path] == 0, -all_[item.path]))


@pytest.fixture
def figures(request):
    """Where a test puts what it counted."""
    return Figures(request.node.nodeid)


@pytest.fixture
def anyio_backend():
    return "asyncio"
