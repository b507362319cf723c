"""Many seeds on all cores, `python tests/sim/simulate.py --count 10000`, or one seed and its story, `--seed 7`.

With `--servers 3` it is three servers that share an engine, instead of one with a disk of its own. A seed that breaks a
promise is made as small as it gets, and told: what was done to whom, and what everybody saw.
"""

import argparse
import gc
import json
import logging
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from judge import Verdict
from scenario import STEPS, Scenario
from shrink import smallest
from simworld import World

CHUNK = 20  # seeds that a process is given at once
SHOWN_MAX = 3  # seeds that are told in full


@dataclass
class Tally:
    """What a number of seeds gave."""

    histories: int = 0
    undecided: int = 0
    broken: dict[int, list[str]] = field(default_factory=dict)  # by seed
    seen: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Tally") -> None:
        self.histories += other.histories
        self.undecided += other.undecided
        self.broken |= other.broken
        self.seen += other.seen


def judged(scenario: Scenario, *, telling: bool = False) -> tuple[World, list[str], int]:
    """A run and what is wrong with it; an exception out of the world is wrong too."""
    world = World(scenario, telling=telling)
    try:
        verdict = Verdict(world.run())
    except Exception as failure:  # noqa: BLE001  # a broken product may fail anywhere
        return world, [f"failed: {failure!r}"], 0
    return world, verdict.violations, verdict.undecided


def run_seeds(seeds: range, *, servers: int = 1) -> Tally:
    tally = Tally()
    for seed in seeds:
        world, violations, undecided = judged(Scenario.drawn(seed, servers=servers))
        tally.histories += 1
        tally.undecided += undecided
        tally.seen += world.history.situations
        tally.seen["requests"] += len(world.history.requests)
        tally.seen["steps"] += world.scheduler.steps
        tally.seen["terms"] += len(world.tape.terms)
        if violations:
            tally.broken[seed] = violations
        world.end()
        del world
        gc.collect()
    return tally


def settle_down() -> None:
    """A history is one big heap of cycles: it is collected when it is over, at once, and nothing else is looked at.

    Crashes and full disks are what this is about: nobody wants to read of them, and whoever kept what is logged would
    keep every world that failed.
    """
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.freeze()
    gc.disable()


def run_many(first: int, count: int, *, servers: int = 1, processes: int = 1) -> Iterator[Tally]:
    """The tallies of all chunks, as they come."""
    chunks = [range(at, min(at + CHUNK, first + count)) for at in range(first, first + count, CHUNK)]
    run = partial(run_seeds, servers=servers)
    if processes > 1:
        with multiprocessing.get_context("fork").Pool(processes, settle_down) as pool:
            yield from pool.imap_unordered(run, chunks)
        return
    logged_before = logging.root.manager.disable
    settle_down()
    try:
        yield from map(run, chunks)
    finally:
        gc.enable()
        gc.unfreeze()
        logging.disable(logged_before)


def fingerprint(violation: str) -> str:
    """What kind of failure it is: a smaller one must be of the same kind."""
    return " ".join(word for word in violation.split() if not any(letter.isdigit() for letter in word))[:40]


def story(seed: int, *, servers: int = 1, shrink: bool = True) -> str:
    """Why this seed fails, as shortly as it can be told; or what happened in it, if it does not."""
    scenario = Scenario.drawn(seed, servers=servers)
    _, violations, _ = judged(scenario)
    if violations and shrink:
        kinds = {fingerprint(violation) for violation in violations}
        scenario = smallest(scenario, lambda tried: any(fingerprint(each) in kinds for each in judged(tried)[1]))
    world, violations, _ = judged(scenario, telling=True)
    lines = [f"seed {seed}: {len(violations)} violations", *(f"  {violation}" for violation in violations[:10])]
    lines += ["", f"{len(scenario.commands)} commands in {scenario.steps} steps, {scenario.weather}"]
    if violations:
        lines += [f"  {command}" for command in scenario.commands]
    lines += ["", "what happened:", *(f"  {at:8.3f}  {what}" for at, what in transcript(world))]
    return "\n".join(lines)


def transcript(world: World) -> list[tuple[float, str]]:
    told = list(world.history.told)
    for each in world.history.requests:
        attempt = f" ({each.attempt})" if each.attempt else ""
        told.append((each.sent, f"{each.client} -> {each.method} {each.path}{attempt}"))
        if each.heard is not None:
            said = each.body.get("token") or each.body.get("status") if isinstance(each.body, dict) else ""
            told.append((each.heard, f"{each.client} <- {each.status} {said or ''} ({each.term}.{each.rev})"))
    return sorted(told)


def main() -> int:
    logging.disable(logging.CRITICAL)  # crashes and full disks are what this is about
    options = _options()
    if options.seed is not None:
        sys.stdout.write(story(options.seed, servers=options.servers) + "\n")
        return 0
    began, total = time.perf_counter(), Tally()
    for tally in run_many(options.first, options.count, servers=options.servers, processes=options.processes):
        total.add(tally)
        _show_progress(total.histories, options.count)
        if total.broken and options.until_violation:
            break
    _report(total, time.perf_counter() - began, as_json=options.json)
    for seed in [] if options.json else sorted(total.broken)[:SHOWN_MAX]:
        sys.stdout.write(story(seed, servers=options.servers) + "\n\n")
    return 1 if total.broken or total.undecided else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1_000, help="how many seeds")
    parser.add_argument("--seed", type=int, help="tell the story of one seed")
    parser.add_argument("--servers", type=int, default=1, help="how many share an engine")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--until-violation", action="store_true", help="stop at the first seed that breaks a promise")
    parser.add_argument("--json", action="store_true", help="one line of JSON, for programs")
    return parser.parse_args()


def _show_progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        filled = 40 * done // of
        sys.stderr.write(f"\r[{'#' * filled}{'.' * (40 - filled)}] {done:,} of {of:,} histories")
        sys.stderr.write("\n" if done == of else "")


def _report(total: Tally, seconds: float, *, as_json: bool) -> None:
    if as_json:
        seed = min(total.broken, default=None)
        violation = None if seed is None else total.broken[seed][0]
        said = {"seed": seed, "histories": total.histories, "violation": violation}
        sys.stdout.write(json.dumps(said) + "\n")
        return
    rate = total.histories / seconds
    sys.stdout.write(
        f"{total.histories:,} histories of {STEPS} steps in {seconds:.1f} s ({rate:.0f}/s): "
        f"{len(total.broken)} broken, {total.undecided} undecided\n"
    )
    for name, times in sorted(total.seen.items()):
        sys.stdout.write(f"  {times:>12,}  {name}\n")


if __name__ == "__main__":
    sys.exit(main())
