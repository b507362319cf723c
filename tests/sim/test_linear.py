"""The checker itself: it accepts what a lease server may do, and nothing else."""

import time
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from linear import Op, Rules, Verdict, check, check_all
from linear_histories import CORRUPTIONS, SCOPES, World, overlap
from linear_slow import explained, few_answers, few_attempts
from proving import size

LINEAR, BROKEN, UNDECIDED = Verdict
HISTORIES = size("linear_histories", 300)
LENGTH = size("linear_history_length", 150)
TTL = 10.0
GROUP = Rules(conflicts=overlap)


def got(client, call, ret, token, ttl=TTL, resource="r", attempt=None):
    return Op(client, "acquire", resource, call, ret, "ok", token, ttl, attempt)


def no(client, call, ret, resource="r", attempt=None):
    return Op(client, "acquire", resource, call, ret, "no", None, TTL, attempt)


def asked(client, call, resource="r", attempt=None, ttl=TTL):
    return Op(client, "acquire", resource, call, None, "unknown", None, ttl, attempt)


def renew(client, call, ret, token, outcome="ok", ttl=TTL):
    return Op(client, "renew", "r", call, ret, outcome, token, ttl)


def release(client, call, ret, token, outcome="ok", resource="r"):
    return Op(client, "release", resource, call, ret, outcome, token)


def read(call, ret, token):
    return Op("reader", "read", "r", call, ret, "ok", token)


LEGAL = {
    "nothing happened": [],
    "one after the other": [got("a", 0, 1, 1), release("a", 2, 3, 1), got("b", 4, 5, 2)],
    "a waiter gets it while the release is on its way": [got("a", 0, 1, 1), got("b", 1, 9, 2), release("a", 7, 10, 1)],
    "the lease ended by itself": [got("a", 0, 1, 1), got("b", 10, 11, 2)],
    "a grant at the last possible instant": [got("a", 0, 1, 1), got("b", 2, 9.99, 2)],
    "a fast clock within the drift": [got("a", 0, 1, 1, ttl=100), got("b", 2, 99.8, 2)],
    "a lease that nobody wants lives on": [got("a", 0, 1, 1), renew("a", 90, 91, 1), release("a", 900, 901, 1)],
    "refused, and the holder is long silent": [got("a", 0, 1, 1), no("b", 500, 501)],
    "refused before the grant that returned first": [no("b", 0, 9), got("a", 1, 2, 1), release("a", 3, 4, 1)],
    "refused while the release is on its way": [got("a", 0, 1, 1), release("a", 2, 5, 1), no("b", 3, 6)],
    "its own lease stands in the way": [got("a", 0, 1, 1), no("a", 2, 3)],
    "lost after its time": [got("a", 0, 1, 1), renew("a", 10, 11, 1, "lost"), release("a", 12, 13, 1, "lost")],
    "lost while another is granted": [got("a", 0, 1, 1), renew("a", 9, 12, 1, "lost"), got("b", 10, 11, 2)],
    "a token that was never one's own": [got("a", 0, 1, 1), renew("b", 2, 3, 1, "lost")],
    "a renewal never shortens": [got("a", 0, 1, 1), renew("a", 2, 3, 1, ttl=1), no("b", 9, 9)],
    "a silent release came late": [got("a", 0, 1, 1), release("a", 2, None, 1, "unknown"), renew("a", 3, 4, 1)],
    "a silent release freed it": [got("a", 0, 1, 1), release("a", 2, None, 1, "unknown"), got("b", 3, 4, 2)],
    "a repeated release": [got("a", 0, 1, 1), release("a", 2, None, 1, "unknown"), release("a", 5, 6, 1)],
    "a silent release, then lost": [
        got("a", 0, 1, 1),
        release("a", 2, None, 1, "unknown"),
        renew("a", 3, 4, 1, "lost"),
    ],
    "a repeated release after the next grant": [
        got("a", 0, 1, 1),
        release("a", 2, None, 1, "unknown"),
        got("b", 3, 4, 2),
        release("a", 5, 6, 1),
    ],
    "a silent acquire explains the refusal": [asked("a", 0), no("b", 1, 2)],
    "a silent acquire never happened": [asked("a", 0), got("b", 1, 2, 1)],
    "a silent acquire happened late": [asked("a", 0), got("b", 1, 2, 1), release("b", 3, 4, 1), no("c", 5, 6)],
    "a silent acquire ended in time": [asked("a", 0), no("b", 1, 2), got("b", 10, 11, 1)],
    "the second silent acquire explains it": [
        asked("a", 0, ttl=100),
        asked("d", 0),
        no("b", 1, 2),
        got("b", 10, 11, 1),
    ],
    "the second of three silent acquires explains it": [
        asked("a", 0, ttl=100),
        asked("d", 0),
        asked("e", 0, ttl=100),
        no("b", 1, 2),
        got("b", 10, 11, 1),
    ],
    "a silent acquire had ended when it was read as free": [
        asked("a", 0, ttl=2),
        read(0.5, 2.1, None),
        no("b", 1, 1.5),
        got("c", 2.2, 2.3, 1),
    ],
    "a silent acquire was given up": [
        asked("a", 0),
        no("b", 1, 2),
        Op("a", "release", "r", 3, None, "unknown"),
        got("b", 4, 5, 1),
    ],
    "a silent acquire shows by its token": [asked("a", 0), renew("a", 5, 6, 1), no("b", 7, 8), read(7, 8, 1)],
    "a silent acquire is seen by a reader": [asked("a", 0), read(1, 2, 7), got("b", 10, 11, 8)],
    "a silent renewal changes nothing": [got("a", 0, 1, 1), renew("a", 9, None, 1, "unknown"), got("b", 10, 11, 2)],
    "the answer to a repeat": [asked("a", 0, attempt="x"), no("b", 1, 2), got("a", 3, 4, 1, attempt="x")],
    "an attempt in slices": [
        got("b", 0, 1, 1),
        no("a", 2, 4, attempt="x"),
        release("b", 5, 6, 1),
        got("a", 5, 7, 2, attempt="x"),
    ],
    "two answers to one attempt": [got("a", 0, 5, 1, attempt="x"), got("a", 1, 2, 1, attempt="x"), renew("a", 3, 4, 1)],
    "a repeat after the end": [got("a", 0, 1, 1, attempt="x"), Op("a", "acquire", "r", 10, 11, "lost", attempt="x")],
    "a repeat after a release by a token that was read": [
        asked("a", 0, attempt="x"),
        release("a", 2, 3, 1),
        Op("a", "acquire", "r", 4, 5, "lost", ttl=TTL, attempt="x"),
    ],
    "reads around a lease": [
        read(0, 1, None),
        got("a", 2, 3, 1),
        read(4, 5, 1),
        release("a", 6, 7, 1),
        read(8, 9, None),
    ],
    "read as free after its time": [got("a", 0, 1, 1), read(10, 11, None)],
    "two resources have nothing to do with each other": [got("a", 0, 1, 9), got("b", 0, 1, 3, resource="s")],
}

ILLEGAL = {
    "a second grant while it is held": [got("a", 0, 1, 1), got("b", 2, 3, 2)],
    "a second grant a fifth too early": [got("a", 0, 1, 1), got("b", 2, 8, 2)],
    "a second grant in spite of a renewal": [got("a", 0, 1, 1), renew("a", 5, 6, 1), got("b", 11, 12, 2)],
    "a second grant to the holder itself": [got("a", 0, 1, 1), got("a", 2, 3, 2)],
    "a second grant, as a short renewal takes nothing away": [
        got("a", 0, 1, 1),
        renew("a", 2, 3, 1, ttl=1),
        got("b", 5, 6, 2),
    ],
    "a second grant after another's silent release": [
        got("a", 0, 1, 1),
        release("b", 2, None, 1, "unknown"),
        got("c", 3, 4, 2),
    ],
    "a token that falls among open calls": [
        got("a", 0, 5, 2),
        release("a", 1, 2, 2),
        got("b", 0, 5, 1),
        renew("b", 3, 4, 1),
    ],
    "one token for two": [got("a", 0, 1, 1), release("a", 2, 3, 1), got("b", 4, 5, 1)],
    "a token that falls": [got("a", 0, 1, 5), release("a", 2, 3, 5), got("b", 4, 5, 4)],
    "one attempt, two tokens": [got("a", 0, 1, 1, attempt="x"), got("a", 20, 21, 2, attempt="x")],
    "renewed after the next grant": [got("a", 0, 1, 1), got("b", 10, 11, 2), renew("a", 12, 13, 1)],
    "renewed after its release": [got("a", 0, 1, 1), release("a", 2, 3, 1), renew("a", 4, 5, 1)],
    "renewed after it was lost": [got("a", 0, 1, 1), renew("a", 10, 11, 1, "lost"), renew("a", 12, 13, 1)],
    "renewed by another": [got("a", 0, 1, 1), renew("b", 2, 3, 1)],
    "released by another": [got("a", 0, 1, 1), release("b", 2, 3, 1)],
    "released twice": [got("a", 0, 1, 1), release("a", 2, 3, 1), release("a", 4, 5, 1)],
    "lost too early": [got("a", 0, 1, 1), renew("a", 2, 3, 1, "lost")],
    "lost in spite of a renewal": [got("a", 0, 1, 1), renew("a", 8, 9, 1), release("a", 12, 13, 1, "lost")],
    "lost to the acquire itself, too early": [
        asked("a", 0, attempt="x"),
        Op("a", "acquire", "r", 4, 5, "lost", ttl=TTL, attempt="x"),
    ],
    "refused while it was never held": [no("a", 0, 1)],
    "refused after the release": [got("a", 0, 1, 1), release("a", 2, 3, 1), no("b", 4, 5)],
    "refused before a silent acquire was sent": [no("b", 0, 1), asked("a", 2)],
    "one silent acquire explains no two leases": [
        asked("a", 0),
        no("b", 1, 2),
        got("b", 10, 11, 1),
        release("b", 12, 13, 1),
        no("c", 14, 15),
    ],
    "a silent acquire that was seen has its time": [asked("a", 0), read(1, 2, 7), got("b", 8, 9, 8)],
    "a silent acquire that blocked has its time": [asked("a", 0), no("b", 1, 2), got("b", 5, 6, 1)],
    "a silent acquire that blocked was given up too late": [
        asked("a", 0),
        no("b", 1, 2),
        got("b", 3, 4, 1),
        Op("a", "release", "r", 5, None, "unknown"),
    ],
    "a silent acquire blocks from the release on": [
        got("b", 0, 1, 1),
        asked("a", 2),
        release("b", 7, 8, 1),
        no("c", 9, 10),
        got("c", 12, 13, 2),
    ],
    "the promise to a repeat counts from the repeat": [
        asked("a", 0, attempt="x"),
        got("a", 8, 9, 1, attempt="x"),
        got("b", 11, 12, 2),
    ],
    "a waiter's time counts from the release": [
        got("a", 0, 1, 1),
        got("b", 2, 8, 2),
        release("a", 7, 8, 1),
        got("c", 13, 14, 3),
    ],
    "a token from nowhere": [renew("a", 0, 1, 7)],
    "read as free while it is held": [got("a", 0, 1, 1), read(2, 3, None)],
    "read with an old token": [got("a", 0, 1, 1), release("a", 2, 3, 1), got("b", 4, 5, 2), read(6, 7, 1)],
}

BESIDE = {
    "overlapping scopes of one client": [got("a", 0, 1, 1, resource="*"), got("a", 2, 3, 2, resource="a/b")],
    "scopes side by side": [got("a", 0, 1, 1, resource="a/b"), got("b", 0, 1, 2, resource="a/c")],
    "a scope below was held": [got("a", 0, 1, 1, resource="a/b"), no("b", 2, 3, resource="a/**")],
    "a silent acquire above": [asked("a", 0, resource="*"), no("b", 1, 2, resource="a/b")],
    "all below have ended": [
        got("a", 0, 1, 1, resource="a/b"),
        got("b", 0, 1, 2, resource="a/c"),
        release("a", 2, 3, 1, resource="a/b"),
        got("c", 10, 11, 3, resource="a/**"),
    ],
}
ACROSS = {
    "a scope above while one below is held": [got("a", 0, 1, 1, resource="a/b"), got("b", 2, 3, 2, resource="a/**")],
    "one of two below is still held": [
        got("a", 0, 1, 1, resource="a/b"),
        got("b", 0, 1, 2, resource="a/c"),
        release("a", 2, 3, 1, resource="a/b"),
        got("c", 4, 5, 3, resource="*"),
    ],
    "refused because of a scope beside": [got("a", 0, 1, 1, resource="a/b"), no("b", 2, 3, resource="d")],
    "refused because of one's own scope above": [got("a", 0, 1, 1, resource="*"), no("a", 2, 3, resource="d")],
    "tokens fall from scope to scope": [got("a", 0, 1, 2, resource="a/b"), got("b", 2, 3, 1, resource="d")],
}


@pytest.mark.parametrize("what", LEGAL)
def test_what_a_lease_server_may_do_is_linear(what):
    assert check(LEGAL[what]) == (LINEAR, None)
    assert explained(LEGAL[what])


@pytest.mark.parametrize("what", ILLEGAL)
def test_what_no_lease_server_may_do_is_broken(what):
    verdict, stuck = check(ILLEGAL[what])
    assert verdict is BROKEN
    assert stuck


@pytest.mark.parametrize("what", BESIDE)
def test_what_a_server_of_overlapping_scopes_may_do_is_linear(what):
    assert check(BESIDE[what], rules=GROUP) == (LINEAR, None)


@pytest.mark.parametrize("what", ACROSS)
def test_what_no_server_of_overlapping_scopes_may_do_is_broken(what):
    assert check(ACROSS[what], rules=GROUP)[0] is BROKEN


def test_the_order_in_which_a_history_was_written_down_does_not_matter():
    for ops, verdict in [(LEGAL[w], LINEAR) for w in LEGAL] + [(ILLEGAL[w], BROKEN) for w in ILLEGAL]:
        assert check(ops[::-1])[0] is verdict


def test_the_reader_is_shown_the_grant_and_the_answer_that_contradict_each_other():
    ops = [*ILLEGAL["a second grant while it is held"], renew("b", 4, 5, 2)]
    assert check(ops)[1] == ops[:2]
    ops = ILLEGAL["one token for two"]
    assert check(ops)[1] == [ops[0], ops[2]]


def test_each_resource_has_its_own_result():
    results = check_all(
        [*LEGAL["one after the other"], got("a", 0, 1, 1, resource="s"), got("b", 2, 3, 2, resource="s")]
    )
    assert {name: verdict for name, (verdict, _) in results.items()} == {"r": LINEAR, "s": BROKEN}


def test_a_promise_may_be_rounded_up_by_a_millisecond_or_two_and_no_more():
    assert check([got("a", 0, 1, 1), got("b", 2, 9.999, 2)], drift=0.0)[0] is LINEAR
    assert check([got("a", 0, 1, 1), got("b", 2, 9.99, 2)], drift=0.0)[0] is BROKEN


def test_a_small_budget_is_not_enough_to_say_anything():
    assert check(LEGAL["reads around a lease"], budget=3)[0] is UNDECIDED
    assert check(LEGAL["reads around a lease"], budget=6)[0] is LINEAR


@pytest.mark.parametrize(
    ("rules", "what"),
    [
        (Rules(cooldown=True), "refused after the release"),
        (Rules(late_release=True), "released twice"),
    ],
)
def test_what_a_server_is_said_to_do_is_legal(rules, what):
    assert check(ILLEGAL[what])[0] is BROKEN
    assert check(ILLEGAL[what], rules=rules)[0] is LINEAR


def test_whose_lease_it_was_matters_also_for_a_late_release():
    assert check(ILLEGAL["released by another"], rules=Rules(late_release=True))[0] is BROKEN


def test_with_a_queue_an_open_acquire_explains_a_refusal_but_one_of_another_time_does_not():
    ops = [got("a", 0, 1, 1), release("a", 2, 3, 1), no("b", 4, 5), read(6, 7, None)]
    assert check([*ops, got("c", 4, 9, 2)])[0] is BROKEN
    assert check([*ops, got("c", 4, 9, 2)], rules=Rules(queue=True))[0] is LINEAR
    assert check([*ops, got("c", 6, 9, 2)], rules=Rules(queue=True))[0] is BROKEN


def test_an_answer_without_its_token_is_refused():
    with pytest.raises(ValueError, match="token"):
        check([Op("a", "renew", "r", 0, 1, "ok")])


# By chance


@pytest.mark.parametrize("few", [few_answers, few_attempts])
@pytest.mark.parametrize(
    ("resources", "rules"),
    [(("r",), Rules()), (("a/**", "a/b", "d"), GROUP)],
    ids=["one resource", "overlapping scopes"],
)
def test_the_search_and_trying_everything_come_to_the_same_verdict(few, resources, rules, figures):
    seen: Counter[tuple[Verdict, bool]] = Counter()
    for seed in range(size("linear_small_histories", 300)):
        ops = few(Random(seed), resources)
        verdict = check(ops, rules=rules)[0]
        really = explained(ops, rules.conflicts or str.__eq__)
        assert (verdict, really) != (BROKEN, True), f"false alarm: seed {seed}"
        seen[verdict, really] += 1
    figures.add(
        "small histories, the search against trying everything",
        explained=seen[LINEAR, True],
        broken=seen[BROKEN, False],
        false_alarms=0,
        too_kind=seen[LINEAR, False],
    )
    assert min(seen[LINEAR, True], seen[BROKEN, False]) > seen.total() / 10
    assert seen[LINEAR, False] <= seen.total() / 50


def worlds(first: int, count: int) -> Iterator[tuple[int, list[Op], Rules]]:
    """Half of them with one lease for each resource, half with scopes that overlap."""
    for seed in range(first, first + count):
        if seed % 2:
            yield seed, World(seed, resources=SCOPES, conflicts=overlap).run(LENGTH), GROUP
        else:
            yield seed, World(seed).run(LENGTH), Rules()


@pytest.mark.timeout(3600)
def test_no_history_of_a_right_server_is_broken(figures):
    seen: Counter[Verdict] = Counter()
    ops_count, spent_s = 0, 0.0
    for seed, ops, rules in worlds(0, HISTORIES):
        began = time.process_time()
        verdict, stuck = check(ops, rules=rules)
        spent_s += time.process_time() - began
        assert verdict is not BROKEN, f"seed {seed}: {stuck}"
        seen[verdict] += 1
        ops_count += len(ops)
        figures.progress(seed, HISTORIES)
    figures.add(
        "histories of a right server",
        histories=HISTORIES,
        ops=ops_count,
        linear=seen[LINEAR],
        broken=0,
        undecided=seen[UNDECIDED],
        ms_each=round(1000 * spent_s / HISTORIES, 2),
    )
    assert seen[UNDECIDED] <= HISTORIES / 100


@pytest.mark.timeout(3600)
def test_a_history_with_one_wrong_answer_is_broken(figures):
    seen: Counter[tuple[str, Verdict]] = Counter()
    for seed, ops, rules in worlds(1_000_000, max(40, HISTORIES // 5)):
        for corruption in CORRUPTIONS:
            wrong = corruption(ops, Random(seed))
            if wrong is not None:
                seen[corruption.__name__, check(wrong, rules=rules)[0]] += 1
        figures.progress(seed - 1_000_000, HISTORIES // 5)
    for name in (corruption.__name__ for corruption in CORRUPTIONS):
        broken, passed, undecided = (seen[name, verdict] for verdict in (BROKEN, LINEAR, UNDECIDED))
        figures.add(f"histories with one wrong answer: {name}", broken=broken, passed=passed, undecided=undecided)
        assert broken >= 10, f"{name} was hardly tried"
        assert broken >= 0.97 * (broken + passed + undecided), name
