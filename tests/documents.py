"""The examples of the OpenIntent documents. They are not ours to ship: `OPENINTENT_DOCS` names the folder with them."""

import os
import re
from pathlib import Path

import pytest

BLOCK = re.compile(r"^```(?:python|yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ADDRESS = "http://localhost:8000"

# What each example is known by, file by file, in the order of the documents. Each has a test of its own.
MARKS = [
    'scope="data_processing"',
    '@Agent("exclusive-worker")',
    "# Manual renewal",
    "Another agent holds this lease",
    "# Get all leases for an intent",
    "# Release when done",
    "# Agent A acquires the lease",
    '@Agent("reliable-worker"',
    "# Retry with fresh version",
    "acquire_coordinator_lease(",
    'name: "Resilient Pipeline"',
]


def examples() -> list[str]:
    """Every example of the two documents, in order."""
    folder = os.environ.get("OPENINTENT_DOCS")
    if not folder:
        pytest.skip(reason="OPENINTENT_DOCS does not name the folder with the documents")
    files = [path for start in ("000", "001") for path in sorted(Path(folder).glob(f"{start}*"))]
    return [block for path in files for block in BLOCK.findall(path.read_text(encoding="utf-8"))]


def example(mark: str) -> str:
    """The one example that contains this text."""
    assert mark in MARKS
    (found,) = [block for block in examples() if mark in block]
    return found
