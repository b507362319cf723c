import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openintent.retrying import ATTEMPTS_MAX, DELAY_S_MAX, Retry

seconds = st.floats(0, DELAY_S_MAX)
shares = st.floats(0, 1)
retries = st.builds(
    Retry,
    max_attempts=st.integers(1, ATTEMPTS_MAX),
    backoff=st.sampled_from(["constant", "linear", "exponential"]),
    base_delay_seconds=seconds,
    max_delay_seconds=seconds,
    jitter=shares,
)
failures = st.integers(1, ATTEMPTS_MAX)


@given(retries, failures, shares)
def test_no_delay_is_longer_than_the_longest(retry, failed, chance):
    assert 0 <= retry.delay_s(failed, chance=chance) <= retry.max_delay_seconds * (1 + 1e-9)


@given(retries, failures, shares)
def test_a_later_failure_never_shortens_the_delay(retry, failed, chance):
    assert retry.delay_s(failed, chance=chance) <= retry.delay_s(failed + 1, chance=chance)


@given(retries, failures, shares)
def test_chance_moves_a_delay_by_no_more_than_its_share(retry, failed, chance):
    middle_s = retry.delay_s(failed, chance=0.5)
    moved_s = abs(retry.delay_s(failed, chance=chance) - middle_s)
    assert moved_s <= middle_s * retry.jitter + 1e-6


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [("constant", [2, 2, 2, 2]), ("linear", [2, 4, 6, 8]), ("exponential", [2, 4, 8, 16])],
)
def test_delays_follow_the_declared_backoff(backoff, delays):
    retry = Retry(backoff=backoff, base_delay_seconds=2)
    assert [retry.delay_s(failed, chance=0.9) for failed in (1, 2, 3, 4)] == delays


def test_many_who_failed_together_come_back_apart_also_after_the_longest_delay():
    retry = Retry(base_delay_seconds=100, max_delay_seconds=10, jitter=0.5)
    delays = {retry.delay_s(5, chance=chance / 10) for chance in range(11)}
    assert len(delays) == 11
    assert max(delays) == pytest.approx(10)


@given(retries, st.integers(1, 2 * ATTEMPTS_MAX))
def test_there_are_as_many_attempts_as_were_declared(retry, failed):
    assert retry.allows(failed, ["ValueError"]) == (failed < retry.max_attempts)


def test_only_the_named_errors_are_worth_another_try():
    retry = Retry(retryable_errors=("OSError",))
    assert retry.allows(1, ["ConnectionResetError", "ConnectionError", "OSError"])
    assert not retry.allows(1, ["KeyError", "LookupError"])
    assert not retry.allows(3, ["OSError"])


WRONG = [
    {"max_attempts": 0},
    {"max_attempts": ATTEMPTS_MAX + 1},
    {"max_attempts": 1.5},
    {"backoff": "fibonacci"},
    {"base_delay_seconds": -1},
    {"base_delay_seconds": "2"},
    {"max_delay_seconds": DELAY_S_MAX + 1},
    {"jitter": 1.1},
    {"retryable_errors": "ValueError"},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_what_cannot_be_is_refused_whether_it_is_written_in_a_program_or_read(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        Retry(**wrong)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, Retry)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_delay_is_a_finite_number(value):
    with pytest.raises(ValueError, match="base_delay_seconds"):
        Retry(base_delay_seconds=value)


@given(retries)
def test_what_is_written_is_read_as_the_same(retry):
    assert msgspec.json.decode(msgspec.json.encode(retry), type=Retry) == retry
