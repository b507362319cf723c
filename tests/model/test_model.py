"""The model in model/lease.pml: all its states, what each protection is good for, and that the ledger does the same."""

import re
from collections import Counter

import pytest
from proving import size
from replayer import Replayer, kind
from spinning import MODEL, need_spin, random_run, search, shortest_run

README = MODEL.with_name("README.md")

# What is taken away, and the property that breaks first.
SWITCHES = {
    "TOKENS_NOT_DURABLE": "tokens_rise",
    "REPLY_BEFORE_COMMIT": "tokens_rise",
    "LEASES_DROPPED": "exclusion_by_server_time",
    "DEADLINE_NOT_REBASED": "exclusion_by_server_time",
    "GROWTH_NOT_WRITTEN": "exclusion_by_server_time",
    "TRUST_FROM_RECEIPT": "exclusion_of_belief",
    "LATE_REPLY_BELIEVED": "exclusion_of_belief",
    "STORE_DOES_NOT_CHECK": "no_stale_write",
    "ATTEMPTS_NOT_DURABLE": "an_attempt_is_granted_once",
    "RENEWAL_REVIVES": "no_resurrection",
}
TTL = 2  # ticks, as in the model
RANDOM_ATTEMPTS = 3  # for each client, so that a random run does not soon run out of them
RANDOM_TTL = 6  # so that something happens between a grant and its lapse
RANDOM_STATEMENTS = 2_000
# Chance alone crashes and gives up so often that little else happens; so each run has its own mix of faults.
KINDER = [(), ("NO_GIVING_UP", "NO_CRASHES"), ("NO_GIVING_UP", "NO_LOSS"), ("NO_GIVING_UP", "NO_CRASHES", "NO_STALLS")]
MUST_HAPPEN = {
    "acquire: granted waits",
    "acquire: granted leaves",
    "acquire: held",
    "acquire: lost",
    "renew: renewed leaves",
    "renew: renewed waits",
    "renew: lost",
    "release: released",
    "release: lost",
    "receive: believed",
    "receive: ignored",
    "write: accepted",
    "write: refused",
    "tick: lapsed",
    "tick_unnoticed:",
    "commit",
    "crash",
    "restart:",
}


@pytest.fixture(autouse=True)
def spin():
    need_spin()


@pytest.mark.timeout(600)  # seconds alone, more beside others
def test_no_run_of_the_model_breaks_a_property(tmp_path, figures):
    attempts = size("model_attempts", 1)
    found = search(tmp_path, attempts=attempts)
    assert found.broken == set()
    assert found.complete
    figures.add(
        "states of the model, all of them",
        states=found.states,
        transitions=found.transitions,
        attempts_of_each_client=attempts,
        properties_broken=0,
    )


@pytest.mark.parametrize("switch", SWITCHES)
def test_without_a_protection_its_property_breaks_where_the_ledger_keeps_it(switch, tmp_path, figures, request):
    """The run is the shortest there is, and somewhere in it the ledger must do better."""
    found = search(tmp_path, switch, attempts=1, shortest=True)
    assert found.broken == {SWITCHES[switch]}
    steps = shortest_run(tmp_path, switch, attempts=1)
    row = table_row(switch, len(steps), last_difference(steps))
    if request.config.getoption("--rewrite-traces"):
        rewrite(switch, row)
    assert row in README.read_text(encoding="utf-8"), f"in {README.name} it should read: {row}"
    figures.add("protections taken out of the model", switch=switch, breaks=SWITCHES[switch], steps=len(steps))


def last_difference(steps: list[str]) -> str:
    """The step of a bad run that the ledger refuses. It need not be the last one: of two beliefs one is right."""
    replayer = Replayer(attempts=1, ttl=TTL)
    told = [(step, *replayer.step(step)) for step in steps]
    differences = [(number, *each) for number, each in enumerate(told, start=1) if each[1] != each[2]]
    assert differences, steps
    assert replayer.believers() <= 1
    number, step, model, real = differences[-1]
    return f"{number}: `{step.partition(' ')[0]}` is `{real}`, not `{model}`"


def table_row(switch: str, steps: int, difference: str) -> str:
    return f"| `{switch}` | {SWITCHES[switch].replace('_', ' ')} | {steps} | {difference} |"


def rewrite(switch: str, row: str) -> None:
    text = README.read_text(encoding="utf-8")
    # Another table explains the switches.
    of_this_table = re.compile(rf"^\| `{switch}` \|[^|]*\| \d+ \|.*$", re.MULTILINE)
    README.write_text(of_this_table.sub(lambda _: row, text), encoding="utf-8")


def test_the_ledger_does_what_random_runs_of_the_model_do(tmp_path, figures):
    runs = size("model_runs", 120)
    seen: Counter[str] = Counter()
    for seed in range(1, runs + 1):
        kinder = (*KINDER[seed % len(KINDER)], f"TTL={RANDOM_TTL}", f"GROWN={RANDOM_TTL + 3}")
        steps = random_run(tmp_path, *kinder, attempts=RANDOM_ATTEMPTS, seed=seed, statements=RANDOM_STATEMENTS)
        repeat(steps, seed)
        seen.update(map(kind, steps))
        figures.progress(seed, runs)
    assert MUST_HAPPEN - set(seen) == set()
    figures.add("runs of the model, repeated with the ledger", runs=runs, steps_compared=seen.total(), differences=0)


def repeat(steps: list[str], seed: int) -> None:
    replayer = Replayer(attempts=RANDOM_ATTEMPTS, ttl=RANDOM_TTL)
    for number, step in enumerate(steps, start=1):
        model, real = replayer.step(step)
        assert real == model, f"seed {seed}: the ledger says {real!r} to\n" + "\n".join(steps[:number])
