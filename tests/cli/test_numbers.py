"""Numbers that a command line can spell and nothing can be done with."""

import pytest
from commandline import CommandLine

cli = CommandLine("http://127.0.0.1:1")


@pytest.mark.parametrize("number", ["nan", "inf"])
@pytest.mark.parametrize(
    "words",
    [
        ["leases", "watch", "--interval"],
        ["demo", "--seconds"],
        ["run", "flow.yaml", "--ttl"],
        ["agent", "run", "team:Worker", "--ttl"],
        ["agent", "run", "team:Worker", "--drain"],
    ],
)
def test_a_time_that_is_no_number_of_seconds_is_refused_before_anything_begins(words, number):
    refused = cli(*words, number)
    assert (refused.code, refused.out) == (2, "")
    assert f"Invalid value for '{words[-1]}'" in refused.err


def test_an_interval_that_no_clock_can_wait_for_is_refused():
    assert cli("leases", "watch", "--interval", "1e12").code == 2


@pytest.mark.parametrize("value", ["1e999", "[-1e999]"])
def test_a_number_too_large_for_json_is_refused_and_not_stored_as_null(value):
    refused = cli("intents", "new", "x", "--state", f"pages={value}")
    assert (refused.code, refused.out) == (2, "")
    assert "is too large a number" in refused.err
