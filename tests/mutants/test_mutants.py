"""Every deliberate bug is found: proof that the suite can fail.

A bug that is not found is a hole in the tests. That the healthy package passes the same checks is seen in the same run:
else "found" would mean nothing.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import of_agents
import of_client
import of_cluster
import of_connections
import of_etcd
import of_moving
import of_postgres
import of_preemption
import of_recovery
import of_redis
import of_rules
import of_server
import of_storage
import of_zookeeper
import pytest
from mutant import Check, Mutant, Picked, Sim
from proving import size
from workshop import PACKAGE, Found, Workshop

MUTANTS: Final = (
    *of_rules.MUTANTS,
    *of_preemption.MUTANTS,
    *of_recovery.MUTANTS,
    *of_storage.MUTANTS,
    *of_client.MUTANTS,
    *of_cluster.MUTANTS,
    *of_connections.MUTANTS,
    *of_server.MUTANTS,
    *of_agents.MUTANTS,
    *of_etcd.MUTANTS,
    *of_postgres.MUTANTS,
    *of_redis.MUTANTS,
    *of_zookeeper.MUTANTS,
    *of_moving.MUTANTS,
)
Asked = tuple[Check, int]  # and how many histories, if it is a simulator

WORKERS: Final = 2
QUICK: Final = 2


def chosen(count: int) -> list[Mutant]:
    """So many, evenly spread over all; 0 is all of them."""
    if count <= 0 or count >= len(MUTANTS):
        return list(MUTANTS)
    return [MUTANTS[number * len(MUTANTS) // count] for number in range(count)]


class Workshops:
    """One for each thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = threading.local()
        self._numbers = iter(range(WORKERS))

    def own(self) -> Workshop:
        if not hasattr(self._own, "workshop"):
            self._own.workshop = Workshop(self._folder / str(next(self._numbers)))
        workshop: Workshop = self._own.workshop
        return workshop

    def hunt(self, mutant: Mutant) -> Found | None:
        return self.own().hunt(mutant)

    def healthy(self, asked: Asked) -> str:
        """What a check has to say of the package as it is."""
        check, histories = asked
        return self.own().tested([check]) if isinstance(check, Picked) else self.own().simulated(check, histories)[0]


def checks_of(mutants: list[Mutant], found: list[Found | None]) -> list[Asked]:
    """All that was asked: the tests, in one go for each worker, and as many histories as the longest search took."""
    checks = [check for mutant in mutants for check in mutant.checks]
    names = tuple(dict.fromkeys(name for check in checks if isinstance(check, Picked) for name in check.names))
    shares = (names[first::WORKERS] for first in range(WORKERS))
    longest = max((each.histories for each in found if each is not None), default=0) or 1
    simulators = dict.fromkeys(check for check in checks if isinstance(check, Sim))
    return [*((Picked(share), 0) for share in shares if share), *((sim, longest) for sim in simulators)]


def row(mutant: Mutant, found: Found | None) -> str:
    if found is None:
        return f"{'NOT FOUND':9} {'':>4} {mutant.name}"
    by = f"{found.histories} histories: {found.by}" if found.histories else found.by
    return f"{found.layer:9} {found.seconds:4.1f} s  {mutant.name}\n{'':18}{by}"


def test_every_bug_has_a_name_and_a_place_of_its_own():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        texts = {edit.file: (PACKAGE / edit.file).read_text(encoding="utf-8") for edit in mutant.edits}
        for edit in mutant.edits:
            texts[edit.file] = edit.applied(texts[edit.file])
            compile(texts[edit.file], edit.file, "exec")


def _told(found: Found | None) -> dict[str, object]:
    if found is None:
        return {"found_by": "nobody"}
    return {"found_by": found.layer, "histories": found.histories or "", "because": found.by[:120]}


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_every_bug_is_found(tmp_path, figures, capsys):
    mutants, workshops = chosen(size("mutants", QUICK)), Workshops(tmp_path)
    found: list[Found | None] = []
    with ThreadPoolExecutor(WORKERS) as pool:
        for each in pool.map(workshops.hunt, mutants):
            found.append(each)
            figures.progress(len(found), len(mutants))
        healthy = [said for said in pool.map(workshops.healthy, checks_of(mutants, found)) if said]
    for mutant, each in zip(mutants, found, strict=True):
        figures.add("deliberate bugs", bug=mutant.name, seen_in=mutant.twin, **_told(each))
    with capsys.disabled():
        print("", *map(row, mutants, found), sep="\n")  # noqa: T201  # the table is what this is for
    assert healthy == [], "the package as it is does not pass what should find the bugs"
    assert [mutant.name for mutant, each in zip(mutants, found, strict=True) if each is None] == []
