"""Each file in `traces` is a story with the exact answers.

After a change of the rules: `pytest tests/core --rewrite-traces`, read the diff, commit only what you understand.
"""

from pathlib import Path

import pytest
import transcripts

TRACES = sorted((Path(__file__).parent / "traces").glob("*.txt"))


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.stem)
def test_the_story_still_goes_like_this(trace, request):
    told = trace.read_text(encoding="utf-8")
    now = transcripts.replay(told)
    if request.config.getoption("--rewrite-traces"):
        trace.write_text(now, encoding="utf-8")
        return
    assert now == told


def test_there_are_stories():
    assert len(TRACES) >= 15
