"""When a command is told to stop and when it is killed. All instants are on one clock; trust ends at 100."""

import pytest

from openintent.cli.running import Times

UNTIL = 100.0


@pytest.mark.parametrize(
    ("ttl_s", "grace_s", "stop_at", "kill_at"),
    [
        (30.0, None, 95.0, 99.95),
        (6.0, None, 99.0, 99.95),
        (0.6, None, 99.9, 99.975),
        (30.0, 10.0, 89.95, 99.95),
        (30.0, 0.0, 99.95, 99.95),
    ],
)
def test_the_command_has_its_grace_and_is_dead_when_trust_ends(ttl_s, grace_s, stop_at, kill_at):
    times = Times.of(ttl_s, grace_s)
    assert times.stop_at(UNTIL) == pytest.approx(stop_at)
    assert times.kill_at(UNTIL, stopped_at=stop_at) == pytest.approx(kill_at)


def test_after_a_revocation_it_has_its_grace_and_no_more():
    assert Times.of(30.0, 2.0).kill_at(UNTIL, stopped_at=80.0) == 82.0


def test_whoever_finds_out_too_late_kills_at_once():
    assert Times.of(30.0, None).kill_at(UNTIL, stopped_at=200.0) < UNTIL
