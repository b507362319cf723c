"""Eight programs share a file, and again and again the one that serves it is killed: what was promised stays so."""

import json
import random
import statistics
from itertools import pairwise
from typing import NamedTuple

import pytest
from contender import INTENT, SCOPES
from programs import PATIENCE_S, Company, Program, company, grantor_pid
from proving import size

import openintent

PROGRAMS = 8
ROUNDS = size("local_rounds", 4)
# The promise is one second. Here eight programs and their successors, which are just being started, share two cores
# with whatever else runs there.
GO_ON_S_MAX = 5.0
SEED = size("local_seed", 1)


class Arena:
    def __init__(self, database, programs: Company) -> None:
        self.database = database
        self.company = programs
        self.chance = random.Random(SEED)
        self._names = 0

    def fill(self) -> None:
        while len(self.company.living()) < PROGRAMS:
            self._names += 1
            self.company.start("contender", self.database, f"agent-{self._names}")
        for program in self.company.living():
            program.wait_for("pulse")

    def kill_grantor(self) -> None:
        """At a random moment, and then wait until all the others have gone on, and each scope is held anew."""
        victim = self.grantor()
        self.company.heard.acquire()
        self.company.heard.wait(self.chance.uniform(0, 0.05))
        self.company.heard.release()
        at = victim.kill()
        for program in self.company.living():
            program.wait_for("pulse", after=at + 0.05)
        with self.company.heard:
            assert self.company.heard.wait_for(lambda: self._held_since(at) == set(SCOPES), PATIENCE_S)

    def _held_since(self, at: float) -> set[str]:
        return {said["scope"] for program in self.company.living() for said in program.of("holds", after=at)}

    def grantor(self) -> Program:
        with self.company.heard:
            found = self.company.heard.wait_for(self._grantor, PATIENCE_S)
        assert found is not None, "nobody serves the file"
        return found

    def _grantor(self) -> Program | None:
        pid = grantor_pid(self.database)
        return next((program for program in self.company.living() if program.pid == pid), None)

    def finish(self) -> None:
        for program in self.company.living():
            assert program.finish() == ""


@pytest.fixture
def arena(tmp_path):
    with company() as programs:
        yield Arena(tmp_path / "leases.db", programs)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.busy
@pytest.mark.timeout(60 + 15 * ROUNDS)
def test_killing_the_grantor_again_and_again_breaks_no_promise(arena, figures):
    for done in range(ROUNDS):
        figures.progress(done, ROUNDS)
        arena.fill()
        arena.kill_grantor()
    arena.finish()

    programs = arena.company.programs
    check_exclusion(programs)
    check_tokens(programs)
    check_counts(programs, arena.database)
    check_silences(programs)
    figures.add("kill -9 of whoever serves a shared file", kills=ROUNDS, two_holders=0, lost=0, seed=SEED)


def check_exclusion(programs: list[Program]) -> None:
    """Nobody believed in a lease, and nobody acted under one, while another one believed in one on the same scope."""
    for scope in SCOPES:
        beliefs = sorted(belief for program in programs for belief in beliefs_of(program, scope))
        assert len(beliefs) > ROUNDS
        overlaps = [(one, other) for one, other in pairwise(beliefs) if max(one.end, one.acted_at) > other.start]
        assert overlaps == []
        assert [belief.token for belief in beliefs] == sorted({belief.token for belief in beliefs}), "tokens rise"


class Belief(NamedTuple):
    start: float
    end: float
    acted_at: float  # for the last time
    token: int
    pid: int


def beliefs_of(program: Program, scope: str) -> list[Belief]:
    """A program that did not run for a while cannot say that it stopped to believe; but it knows by the clock."""
    ends: dict[int, float] = {}
    for said in program.of("ends"):
        ends.setdefault(said["token"], min(said["at"], said["until"]))
    acts = {said["token"]: said["looked_at"] for said in program.of("acts")}
    held = {said["token"]: said["at"] for said in program.of("holds") if said["scope"] == scope}
    beliefs = [
        Belief(at, ends.get(token, program.dead_at), acts.get(token, at), token, program.pid)
        for token, at in held.items()
    ]
    # One that was over when the program came to say that it holds, and under which it never acted, is none: the next
    # holder may have begun by then.
    return [belief for belief in beliefs if max(belief.end, belief.acted_at) > belief.start]


def check_tokens(programs: list[Program]) -> None:
    """Each program sees its own tokens rise, and no two programs see the same."""
    seen: set[int] = set()
    for program in programs:
        tokens = [said["token"] for said in program.of("pulse")]
        assert tokens == sorted(set(tokens))
        assert seen.isdisjoint(tokens)
        seen.update(tokens)


def check_counts(programs: list[Program], database) -> None:
    """What was acknowledged is there, and nothing more than what was asked for."""
    with openintent.local(database) as client:
        state = client.get_intent(INTENT).state
    for scope in SCOPES:
        counted = [said["value"] for program in programs for said in program.of("counted") if said["scope"] == scope]
        doubtful = [program for program in programs if doubted(program, scope)]
        assert len(counted) == len(set(counted)), "counted twice"
        assert len(counted) <= state[scope] <= len(counted) + len(doubtful)


def doubted(program: Program, scope: str) -> bool:
    """Whether it was killed while it waited for the answer to a write."""
    about = [said for said in program.said if said["kind"] in {"tries", "fails", "counted"}]
    return bool(about) and about[-1]["kind"] == "tries" and about[-1]["scope"] == scope


def check_silences(programs: list[Program]) -> None:
    """How long those who were not killed were kept waiting, around each kill."""
    kills = [victim.killed_at for victim in programs if victim.killed_at is not None]
    found = [silence(program, killed_at) for killed_at in kills for program in programs]
    waits = sorted(wait for wait in found if wait is not None)
    p50, p99 = statistics.median(waits), waits[int(len(waits) * 0.99)]
    print(json.dumps({"kills": len(kills), "p50_s": p50, "p99_s": p99, "max_s": waits[-1]}))  # noqa: T201  # see it with -s
    assert len(waits) == ROUNDS * (PROGRAMS - 1)
    assert waits[-1] < GO_ON_S_MAX


def silence(program: Program, killed_at: float) -> float | None:
    """The longest time from the kill on in which it got nothing done; None if it did not live through it."""
    moments = [said["at"] for said in program.of("pulse")]
    before, after = [at for at in moments if at <= killed_at], [at for at in moments if at > killed_at]
    if not before or not after:
        return None
    return max([after[0] - killed_at] + [later - sooner for sooner, later in pairwise(after) if sooner < killed_at + 1])
