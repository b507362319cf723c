"""The whole product in virtual time, seed by seed."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from judge import violations
from simworld import World

SEEDS = int(os.environ.get("SIM_SEEDS", "150"))
# Situations without which a run proves nothing.
NEEDED = (
    "at_risk",
    "client frozen",
    "client kill",
    "crash with a commit on its way",
    "lapse of a promise",
    "link cut",
    "lost",
    "server crash",
    "server frozen",
    "server stop",
    "stale write refused",
    "wall jump",
)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_history_breaks_a_promise_and_the_rare_things_do_happen():
    situations: Counter[str] = Counter()
    for seed in range(SEEDS):
        world = World(seed).run()
        assert violations(world) == [], f"seed {seed}"
        situations += world.history.situations
    assert [name for name in NEEDED if not situations[name]] == []


def test_the_same_seed_gives_the_same_history_also_in_another_process():
    here = [World(seed).run().history.digest() for seed in range(3)]
    assert here == [World(seed).run().history.digest() for seed in range(3)]
    program = "from simworld import World\nfor seed in range(3): print(World(seed).run().history.digest())"
    folder = Path(__file__).parent
    env = os.environ | {"PYTHONPATH": str(folder), "PYTHONHASHSEED": "77"}
    there = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert there.stdout.split() == here


def test_jumps_of_the_wall_clock_change_no_decision():
    jumped = 0
    for seed in range(10):
        with_jumps, without = World(seed).run(), World(seed, wall_jumps=False).run()
        assert with_jumps.history.digest() == without.history.digest(), f"seed {seed}"
        jumped += with_jumps.history.situations["wall jump"]
    assert jumped > 10
