"""What this version writes down, version 1 of every record, and that it can be read back.

`tests/golden/records-v1.txt` has a key and its bytes on each line, in hex. Only for a new format, under a new name,
is such a file made anew (`pytest --rewrite-traces` writes it); those of old formats stay, and must still load. So must
`records-v1-first.txt`, whose leases lack the fields that were added at their end; its waiters, cooldowns and attempts
have one more, which nobody read. In both it and `records-v1-second.txt` the grant of a lease is a payload like others.
In these and in `records-v1-third.txt` an intent does not say by which event it was created, nor an attempt for which.
"""

from pathlib import Path

import pytest
from world import World

from openintent import records
from openintent.core import commands
from openintent.core.ledger import LOADED_KINDS, Ledger
from openintent.errors import EngineCorrupt
from openintent.model import Intent, Limits
from openintent.server.views import Views

GOLDEN = Path(__file__).parent.parent / "golden" / "records-v1.txt"
FIRST = GOLDEN.with_name("records-v1-first.txt")
SECOND = GOLDEN.with_name("records-v1-second.txt")
THIRD = GOLDEN.with_name("records-v1-third.txt")
ALL = pytest.mark.parametrize("path", [GOLDEN, FIRST, SECOND, THIRD], ids=lambda path: path.stem)
INTENT = "intent:report"


def everything_there_is() -> World:
    """A world with at least one record of every kind."""
    world = World()
    world.create("report", actor="ann", attempt="made", title="Report", state={"notes": ["x" * 5_000]})
    world.acquire("ann", "draft", space=INTENT, lease="L1", attempt="t1", purpose="write", metadata={"step": 1})
    world.acquire("bob", "draft", space=INTENT, lease="L2", wait_ms=9_000, attempt="t2", priority=3, preempt=True)
    world.acquire("cid", "build/**", lease="L3", cooldown_ms=30_000, max_hold_ms=60_000, progress_ms=5_000)
    world.progress("L3", "cid", checkpoint={"page": 7})
    world.portfolio("quarter", actor="ann", attempt="q1", name="Quarter", metadata={"year": 2})
    world.add("quarter", "report", actor="ann", role="primary", priority=2)
    world.register("bob", role_id="writer", capabilities=["text"], drain_ms=9_000)
    world.assign("report", "bob", actor="ann", role="reviewer")
    world.govern("report", "ann", completion_mode="require_approval", allowed_agents=["ann", "bob"])
    world.decide("report", "bob", outcome="rejected", reasoning="too long", id="D1")
    world.coordinate("ann", portfolio="quarter", lease="C1", metadata={"role": "lead"})
    world.do(commands.Forget(horizon=1, keys=[]))
    world.commit()
    world.patch("report", ("append", "notes", "y"), actor="ann")
    world.revoke("L3")
    world.take(farewell=True)
    world.arrive()
    return world


def text_of(store: dict[str, bytes]) -> str:
    return "".join(f"{key.encode().hex()} {value.hex()}\n" for key, value in sorted(store.items()))


def read_back(text: str) -> dict[str, bytes]:
    pairs = (line.split(" ") for line in text.splitlines())
    return {bytes.fromhex(key).decode(): bytes.fromhex(value) for key, value in pairs}


def test_this_version_writes_its_records_as_it_always_did(request):
    written = text_of(everything_there_is().store)
    if request.config.getoption("--rewrite-traces"):
        GOLDEN.write_text(written)
    assert written == GOLDEN.read_text()


def test_there_is_a_record_of_every_kind():
    assert {key[0] for key in read_back(GOLDEN.read_text())} == set(records.KINDS)


def loaded(path: Path) -> Ledger:
    """What a new term makes of a golden file."""
    store = read_back(path.read_text())
    ledger = Ledger(Limits(), term=2, token=4, seq=20, now_ms=1_000)
    farewell = records.decode("f/", store["f/"])
    for kind in LOADED_KINDS:
        ledger.load(((key, records.decode(key, store[key])) for key in sorted(store) if key[0] == kind), farewell)
    ledger.loaded()
    return ledger


@ALL
def test_the_records_of_version_1_are_understood(path):
    books = loaded(path).books
    lease, waiter = books.leases["L1"], books.waiters["L2"]
    assert (lease.holder, lease.scope, lease.token, lease.metadata) == ("ann", "draft", 1, {"step": 1})
    assert (waiter.ask.holder, waiter.ask.priority, waiter.attempt) == ("bob", 3, "t2")
    assert books.intents["report"].state == {"notes": ["x" * 5_000, "y"]}
    assert (books.intents["report"].version, books.intents["report"].title) == (3, "Report")
    assert sorted(books.attempts) == [("ann", "made"), ("ann", "q1"), ("ann", "t1"), ("bob", "t2")]
    assert books.spaces["space:s"].checkpoints == {"build/**": {"page": 7}}
    assert [closed.holder for closed in books.spaces["space:s"].cooldowns] == ["cid"]


@pytest.mark.parametrize(("path", "mark"), [(GOLDEN, (0, "bob", 10_000)), (FIRST, (0, None, None))])
def test_a_lease_that_lacks_the_newer_fields_is_one_that_nobody_asked_for(path, mark):
    lease = loaded(path).books.leases["L1"]
    assert (lease.priority, lease.preempt_reason, lease.hold_end_ms) == mark


def test_what_waiters_cooldowns_and_attempts_no_longer_have_is_not_missed():
    now, first = loaded(THIRD).books, loaded(FIRST).books
    assert now.attempts == first.attempts
    assert list(now.spaces["space:s"].cooldowns) == list(first.spaces["space:s"].cooldowns)
    assert now.waiters["L2"] == first.waiters["L2"]


@ALL
def test_a_request_that_version_1_has_carried_out_is_not_carried_out_again(path):
    ledger = loaded(path)
    made = Intent(id="report", title="Report", state={"notes": ["x" * 5_000]})
    command = commands.CreateIntent(intent=made, chosen_id=True, actor="ann", attempt="made")
    assert ledger.apply(command, 1_000).answer.intent.version == 3


@ALL
def test_the_groups_of_version_1_are_understood(path):
    books = loaded(path).books
    portfolio, member = books.portfolios["quarter"], books.members["quarter"]["report"]
    assert (portfolio.name, portfolio.created_by, portfolio.metadata) == ("Quarter", "ann", {"year": 2})
    assert (member.role, member.priority) == ("primary", 2)
    agent, assignment, [decision] = books.agents["bob"], books.assigned["report"]["bob"], books.decisions["report"]
    assert (agent.role_id, agent.capabilities, agent.drain_ms, agent.dead_ms) == ("writer", ["text"], 9_000, 5_000)
    assert (assignment.role, assignment.assigned_by) == ("reviewer", "ann")
    assert (decision.id, decision.actor, decision.outcome, decision.reasoning) == ("D1", "bob", "rejected", "too long")
    assert books.governed["intent:report"].governance_policy["allowed_agents"] == ["ann", "bob"]
    assert (books.leases["C1"].space, books.horizon) == ("coordinator:portfolio:quarter", 1)


def test_a_record_of_another_format_is_refused_and_not_guessed_at():
    data = read_back(GOLDEN.read_text())["l/L1"]
    with pytest.raises(EngineCorrupt, match="format 02"):
        records.decode("l/L1", b"\x02" + data[1:])
    with pytest.raises(EngineCorrupt, match="cannot be read"):
        records.decode("l/L1", data[:-3])


@ALL
def test_a_grant_in_the_log_is_told_the_same_whichever_version_wrote_it(path):
    store = read_back(path.read_text())
    log = [event for key in sorted(store) if key[0] == "v" for event in records.decode(key, store[key])]
    [granted] = [event for event in log if event.type == "lease_acquired" and event.lease_id == "L1"]
    told = Views(Ledger(Limits()).books).event(granted)
    assert told.payload == {
        "lease_id": "L1",
        "scope": "draft",
        "token": 1,
        "holder": "ann",
        "purpose": "write",
        "metadata": {"step": 1},
    }
