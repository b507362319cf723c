"""docs/proof.md: a part that was run anew replaces what the page has of it, and nothing else."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

PROOF = Path(__file__).resolve().parent.parent / "proof"


@pytest.fixture
def proof(monkeypatch):
    """The scripts of that folder, as they find each other; the benchmarks have a `report` too."""
    names = ("outcome", "parts", "report")
    others = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    monkeypatch.syspath_prepend(str(PROOF))
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    for name in names:
        del sys.modules[name]
    sys.modules.update(others)


def told(proof, name, **counted):
    figures = [{"what": "tries", "counted": counted}]
    return proof.outcome.Outcome(name, f"pytest {name}", seconds=2.0, summary="1 passed", figures=figures)


def test_a_part_that_is_run_anew_leaves_the_others_as_they_were(proof):
    written = proof.report.written
    parts = ["kill -9", "races", "streams"]
    first = written(parts, [told(proof, "races", lost=0, of=7), told(proof, "kill -9", lost=0, of=8)], "")
    again = written(parts, [told(proof, "streams", of="a|b"), told(proof, "kill -9", lost=0, of=99)], first)
    assert [line for line in again.splitlines() if line.startswith("## ")][:3] == [
        "## Kill -9",
        "## Races",
        "## Streams",
    ]
    assert "lost 0, of 99" in again
    assert "lost 0, of 8 " not in again
    assert first.partition("## Races")[2].partition("## ")[0] == again.partition("## Races")[2].partition("## ")[0]
    assert written(parts, [], again) == again


def test_a_part_that_fails_is_named(proof):
    written = proof.report.written
    failed = told(proof, "races", lost=1)
    failed.code = 1
    assert "| races | **fails** |" in written(["races"], [failed], "")


def test_the_page_that_is_there_can_be_read_again(proof):
    page = (PROOF.parent / "docs" / "proof.md").read_text(encoding="utf-8")
    assert proof.report.written([part.name for part in proof.parts.PARTS], [], page) == page
