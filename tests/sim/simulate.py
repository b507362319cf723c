"""Run many seeds: `python simulate.py FIRST COUNT`."""

import sys
import time
from collections import Counter

from judge import violations
from simworld import World


def main() -> int:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    situations: Counter[str] = Counter()
    bad, began = 0, time.perf_counter()
    for seed in range(first, first + count):
        world = World(seed).run()
        found = violations(world)
        situations += world.history.situations
        situations["replies"] += len(world.history.heard)
        situations["beliefs"] += len(world.history.beliefs)
        situations["steps"] += world.scheduler.steps
        situations["sim seconds"] += int(world.scheduler.now)
        if found:
            bad += 1
            for _line in found[:5]:
                pass
    time.perf_counter() - began
    for _name, _times in sorted(situations.items()):
        pass
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
