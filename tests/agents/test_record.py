"""The record of an assignment: whoever dies when, what is done is done once, and nothing is tried for ever."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from openintent.agents import record as records
from openintent.agents.record import LAPSED, BadRecord, Failure, Record
from openintent.retrying import Retry

ATTEMPTS = 3
DEFAULT = Retry(max_attempts=ATTEMPTS, base_delay_seconds=2)
names = st.text(min_size=1, max_size=20) | st.sampled_from(["a/b", "a~b", "~1", "~0/~1", "größe/☃", "_assignments"])


class Assignments(RuleBasedStateMachine):
    """One assignment in a fleet: instances begin, succeed, fail, are put back, die; and it is made anew."""

    def __init__(self):
        super().__init__()
        self.state = {"other": {"kept": True}}
        self.assigned = 1
        self.token = 0
        self.running = None  # what the one at work knows
        self.runs = self.failures = self.put_back = self.results = 0
        self.was = "open"

    @property
    def record(self):
        return records.read(self.state, "näme/~")

    def write(self, record):
        value = records.patch("näme/~", record)["value"]
        self.state.setdefault(records.KEY, {})["näme/~"] = msgspec.json.decode(msgspec.json.encode(value))

    def begin(self):
        self.token += 1
        found = self.record
        begun = records.begin(
            found, assigned_at=f"t{self.assigned}", holder=f"i{self.token}", token=self.token, default=DEFAULT
        )
        if begun is None:
            assert found.over
            return
        if found.status == "running" and found.assigned_at == f"t{self.assigned}":
            self.failures += 1
            assert begun.last_failure.error == LAPSED
        self.write(begun)
        if begun.status == "running":
            self.running, self.runs = begun, self.runs + 1
        else:
            assert self.failures == ATTEMPTS

    @precondition(lambda self: self.running is None)
    @rule()
    def somebody_gets_the_lease(self):
        self.begin()

    @precondition(lambda self: self.running is not None)
    @rule()
    def it_succeeds(self):
        self.write(records.succeed(self.running))
        self.running, self.results = None, self.results + 1

    @precondition(lambda self: self.running is not None)
    @rule(chance=st.floats(0, 1))
    def it_raises(self, chance):
        failed = records.fail(self.running, ["ValueError", "Exception"], "no", default=DEFAULT, chance=chance)
        self.failures += 1
        assert (failed.status == "open") == (self.failures < ATTEMPTS)
        if failed.status == "open":
            assert failed.retry_in_seconds == DEFAULT.delay_s(self.failures, chance=chance)
        self.write(failed)
        self.running = None

    @precondition(lambda self: self.running is not None)
    @rule()
    def it_is_put_back(self):
        self.write(records.put_back(self.running))
        self.running, self.put_back = None, self.put_back + 1

    @precondition(lambda self: self.running is not None)
    @rule()
    def its_lease_lapses(self):
        """Whatever it knows, it can write no more: the next one has another token."""
        self.running = None

    @precondition(lambda self: self.running is None)
    @rule()
    def it_is_assigned_anew(self):
        self.assigned += 1
        self.runs = self.failures = self.put_back = self.results = 0
        self.was = "open"

    @invariant()
    def it_never_runs_more_often_than_it_may(self):
        assert self.runs <= ATTEMPTS + self.put_back
        assert self.results <= 1

    @invariant()
    def what_is_over_stays_so(self):
        if self.record.assigned_at != f"t{self.assigned}":
            return
        assert self.was in ("open", self.record.status)
        if self.record.over:
            self.was = self.record.status

    @invariant()
    def it_says_how_it_went(self):
        if self.record.assigned_at == f"t{self.assigned}":
            assert self.record.failed == self.failures == len(self.record.failures)
            assert self.record.attempt == self.runs

    @invariant()
    def nothing_else_is_touched(self):
        assert self.state["other"] == {"kept": True}


TestAssignments = Assignments.TestCase


def begun(record, assigned_at="t1", **options):
    found = records.begin(record, assigned_at=assigned_at, holder="i1", token=7, default=options.get("retry", DEFAULT))
    assert found is not None
    return found


def test_what_whoever_assigned_it_wants_counts_more_than_the_agents_own():
    told = Record(retry=Retry(max_attempts=1))
    assert records.fail(begun(told), ["E"], "", default=DEFAULT, chance=0).status == "parked"


@pytest.mark.parametrize(("parks", "status"), [(True, "parked"), (False, "failed")])
def test_without_attempts_left_it_is_parked_or_has_failed_as_it_was_told(parks, status):
    once = Retry(max_attempts=1)
    assert records.fail(begun(Record(parks=parks)), ["E"], "", default=once, chance=0).status == status
    assert begun(begun(Record(parks=parks)), retry=once).status == status


def test_a_lapse_is_worth_another_try_whichever_errors_are():
    picky = Retry(retryable_errors=("OSError",))
    assert begun(begun(Record()), retry=picky).status == "running"
    assert records.fail(begun(Record()), ["KeyError"], "", default=picky, chance=0).status == "parked"


def test_an_assignment_that_is_made_anew_keeps_what_whoever_assigned_it_said():
    parked = Record(status="parked", assigned_at="t1", attempt=3, failed=3, from_agent="boss", payload={"n": 1})
    again = begun(parked, assigned_at="t2")
    assert (again.status, again.attempt, again.failed, again.failures) == ("running", 1, 0, ())
    assert (again.from_agent, again.payload) == ("boss", {"n": 1})


def test_whoever_has_not_waited_after_the_last_failure_has_to():
    failed = records.fail(begun(Record()), ["E"], "", default=DEFAULT, chance=0)
    assert records.put_off_s(failed, assigned_at="t1", waited_for=0) == 2
    assert records.put_off_s(failed, assigned_at="t1", waited_for=1) == 0
    assert records.put_off_s(failed, assigned_at="t2", waited_for=0) == 0  # made anew, it begins anew
    assert records.put_off_s(records.put_back(begun(failed)), assigned_at="t1", waited_for=0) == 0


def test_the_history_has_a_bound_and_keeps_the_newest():
    patient = Retry(max_attempts=100, base_delay_seconds=0)
    record = Record()
    for number in range(50):
        record = records.fail(begun(record, retry=patient), ["E"], str(number), default=patient, chance=0)
    assert record.failed == 50
    assert [failure.message for failure in record.failures] == [str(number) for number in range(30, 50)]


@given(st.text(st.characters(), max_size=records.MESSAGE_CHARS_MAX * 2) | st.just("\udcff lone"))
def test_whatever_a_handler_says_can_be_written(message):
    failed = records.fail(begun(Record()), ["E"], message, default=DEFAULT, chance=0)
    written = msgspec.json.encode(records.patch("x", failed))
    assert len(msgspec.json.decode(written)["value"]["failures"][0].get("message", "")) <= records.MESSAGE_CHARS_MAX


@given(names)
def test_a_name_has_one_place_whatever_is_in_it(name):
    escaped = records.path(name).removeprefix(f"{records.KEY}/")
    assert "/" not in escaped
    assert escaped.replace("~1", "/").replace("~0", "~") == name
    record = Record(status="done", assigned_at="t", failures=(Failure(attempt=1, error="E"),))
    assert records.read({records.KEY: {name: records.patch(name, record)["value"]}}, name) == record


@given(names)
def test_nothing_yet_is_a_record_too(name):
    assert records.read({}, name) == records.read({records.KEY: {}}, name) == Record()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(Record.__struct_fields__)


@given(json_values | st.dictionaries(fields, json_values, max_size=4))
def test_garbage_in_the_state_is_a_record_or_said_to_be_none(garbage):
    for state in ({records.KEY: {"x": garbage}}, {records.KEY: garbage}):
        try:
            assert isinstance(records.read(state, "x"), Record)
        except BadRecord as bad:
            assert "_assignments/x" in str(bad)  # noqa: PT017  # either is right


@pytest.mark.parametrize("garbage", [None, 7, [], "done", {"status": "lost"}, {"attempt": "x"}, {"failures": 3}])
def test_garbage_is_said_to_be_no_record(garbage):
    with pytest.raises(BadRecord, match="_assignments/a~1b"):
        records.read({records.KEY: {"a/b": garbage}}, "a/b")
