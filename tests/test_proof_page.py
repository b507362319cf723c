"""docs/proof.md: a part that was run anew replaces what the page has of it, and nothing else."""

import sys
from pathlib import Path

import pytest

PROOF = Path(__file__).resolve().parent.parent / "proof"


@pytest.fixture
def proof(monkeypatch):
    monkeypatch.syspath_prepend(str(PROOF))
    import outcome  # it lies beside the package, as a script does
    import report

    yield report.written, outcome.Outcome
    for name in ("outcome", "report"):
        del sys.modules[name]


def told(outcome, name, **counted):
    figures = [{"what": "tries", "counted": counted}]
    return outcome(name, f"pytest {name}", seconds=2.0, summary="1 passed", figures=figures)


def test_a_part_that_is_run_anew_leaves_the_others_as_they_were(proof):
    written, outcome = proof
    parts = ["kill -9", "races", "streams"]
    first = written(parts, [told(outcome, "races", lost=0, of=7), told(outcome, "kill -9", lost=0, of=8)], "")
    again = written(parts, [told(outcome, "streams", of="a|b"), told(outcome, "kill -9", lost=0, of=99)], first)
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
    written, outcome = proof
    failed = told(outcome, "races", lost=1)
    failed.code = 1
    assert "| races | **fails** |" in written(["races"], [failed], "")


def test_the_page_that_is_there_can_be_read_again(proof):
    written, _ = proof
    import parts

    page = (PROOF.parent / "docs" / "proof.md").read_text(encoding="utf-8")
    assert written([part.name for part in parts.PARTS], [], page) == page
