"""What docs/capacity.md calculates is what its formulas give for what it says was measured."""

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).resolve().parent.parent.parent / "docs" / "capacity.md").read_text(encoding="utf-8")
AGENTS = (1_000, 10_000, 100_000)
EVENTS_KEPT = 5_000_000


def rows(heading):
    """The cells of the first table whose heading begins so, by the first of each line."""
    lines = TEXT[TEXT.index(f"\n| {heading}") + 1 :].partition("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    return {name: others for name, *others in cells}


def number(cell):
    return float(cell.split()[0].replace(",", ""))


def heartbeat_share(agents, *, ttl, leases=1):
    renewals_per_s = number(re.search(r"heartbeats . cost / ([\d,]+)", TEXT)[1])
    call, lease = re.search(r"in renewals \| ([\d.]+) \+ ([\d.]+) . leases", TEXT).groups()
    return 100 * 3 * agents / ttl * (float(call) + float(lease) * leases) / renewals_per_s


def worked(agents, pairs_each=1 / 60, ttl=60):
    heartbeats, pairs = 3 * agents / ttl, agents * pairs_each
    back_s = EVENTS_KEPT / (2 * pairs)
    return {
        "hosts": agents / 100,
        "heartbeats a second": heartbeats,
        "pairs a second": pairs,
        "share of the grantor: heartbeats": heartbeat_share(agents, ttl=ttl),
        "share of the grantor: pairs": 100 * pairs / number(rows("engine | pairs a second")["etcd"][0]),
        "attempts that are remembered": 600 * pairs,
        "memory, MB": 40 + 0.0008 * agents + 0.011 * agents + 0.0005 * 600 * pairs,
        "connections": agents,
        "network, KB a second": heartbeats * (0.4 + 0.15) + 1.2 * pairs,
        "events a day, millions": 86_400 * 2 * pairs / 1e6,
        "the log goes back": back_s / 3_600 if back_s > 3_600 else back_s / 60,
    }


def differs(cell, value):
    """By more than its digits say."""
    digits = len(cell.split()[0].partition(".")[2])
    return abs(number(cell) - value) > 0.5 * 10**-digits + 1e-9


@pytest.mark.parametrize("agents", AGENTS)
def test_the_worked_example_is_what_the_formulas_give(agents):
    shown, expected = rows("| 1,000 agents"), worked(agents)
    assert shown.keys() == expected.keys()
    pairs = {name: (shown[name][AGENTS.index(agents)], value) for name, value in expected.items()}
    assert {name: pair for name, pair in pairs.items() if differs(*pair)} == {}


@pytest.mark.parametrize("ttl", [10, 30, 60, 300])
def test_shares_by_ttl_are_what_the_formula_gives(ttl):
    cells = rows("ttl | 1,000 agents")[f"{ttl} s"]
    pairs = [(cell, heartbeat_share(agents, ttl=ttl)) for cell, agents in zip(cells, AGENTS, strict=True)]
    assert [pair for pair in pairs if differs(*pair)] == []


def test_many_leases_of_one_client_cost_what_is_said():
    assert f"{heartbeat_share(10_000, ttl=60, leases=100):.1f} %, and 0.8 GB" in TEXT
